// SPDX-License-Identifier: MIT
// Accepts connections up to a cap and keeps the list of open ones.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "engine/base/result.h"
#include "server/http/session.h"

namespace ballast::http {

/// Opens and binds the acceptor. Errors: kInvalidRequest, kIo.
Result<boost::asio::ip::tcp::acceptor> open_acceptor(boost::asio::io_context& io,
                                                     const HttpOptions& options,
                                                     int inherited_fd);

/// The accept coroutine lives on the acceptor's executor, a strand; the other methods are called
/// by the thread that owns the server.
class Listener {
  public:
    Listener(boost::asio::io_context& io,
             boost::asio::ip::tcp::acceptor acceptor,
             SessionContext& context);

    int port() const { return port_; }
    void start();
    /// Accepts nothing more and tells every session to end after its request.
    void begin_stop();
    void cancel_handlers();
    void abort_sessions();
    /// Waits until no session is left and the accept coroutine has ended; false when the time is
    /// over before.
    bool wait_until_empty(Nanoseconds timeout);

  private:
    Task<void> accept_loop();
    void add_session(boost::asio::ip::tcp::socket socket);
    void remove_session(const Session* session);
    void for_each_session(void (Session::*method)());

    boost::asio::io_context& io_;
    boost::asio::ip::tcp::acceptor acceptor_;
    SessionContext& context_;
    int port_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::unordered_map<const Session*, std::weak_ptr<Session>> sessions_;
    bool accepting_ = false;
    bool stopping_ = false;
};

}  // namespace ballast::http
