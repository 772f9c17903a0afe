// SPDX-License-Identifier: MIT
// One connection's coroutine: reads requests with limits and timeouts, checks them, waits for the
// handler while it watches whether the client is still there, writes the reply.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "server/http/connection.h"
#include "server/http/host_check.h"
#include "server/http/request_checks.h"
#include "server/http/request_parser.h"
#include "server/http/server.h"

namespace ballast::http {

/// What all sessions of one server share. Outlives them.
struct SessionContext {
    ServerParts parts;
    HostCheck host_check;
    std::atomic<std::uint64_t> n_requests{0};  // for request ids
    std::uint64_t id_seed = 0;
};

/// Lives on its own strand, which is the socket's executor; kept alive by its coroutine.
class Session final : public Connection, public std::enable_shared_from_this<Session> {
  public:
    /// refuse: answer 503 to the first request, because there are too many connections.
    Session(boost::asio::ip::tcp::socket socket, SessionContext& context, bool refuse);

    /// Spawns the coroutine; `ended` is called once, when it has ended.
    void start(std::function<void()> ended);

    // From any thread; each runs on the strand later.
    /// No further request; an idle connection closes at once.
    void begin_stop();
    /// Cancels the running handler.
    void cancel_handler();
    /// Closes the socket.
    void abort();

    void on_cancel(std::function<void()> cancel) override;
    bool client_gone() const override { return gone_; }
    bool stopping() const override { return stopping_; }
    Task<Status> start_stream(Reply head) override;
    Task<Status> write_stream(std::string bytes) override;
    Task<Status> end_stream() override;

  private:
    enum class Read { kData, kEnd, kTimeout };

    Task<void> run();
    Task<bool> serve_one();
    Task<bool> wait_for_request();
    Task<Verdict> read_request(RequestParser* parser);
    Task<Read> feed_until_progress(RequestParser* parser);
    Task<Read> read_more();
    Task<Reply> run_handler(const Route* route, Request request);
    Task<bool> write_reply(Reply reply, bool head_only);
    Task<Status> write(std::string bytes);
    Task<void> linger();

    // The watch: one outstanding read while a handler runs.
    void watch();
    void on_watched(bool failed, std::size_t n_bytes);
    Task<void> stop_watching();
    void run_cancel();

    void arm(std::chrono::steady_clock::duration time, bool writing);
    void disarm();
    void on_deadline(bool writing);
    std::string request_id(const Request& request);
    HeadContext head_context(bool chunked) const;

    boost::asio::ip::tcp::socket socket_;
    SessionContext& context_;
    const bool refuse_;
    boost::asio::steady_timer deadline_;
    std::uint64_t deadline_generation_ = 0;
    bool timed_out_ = false;

    std::string buffer_;  // read and not yet parsed
    bool first_request_ = true;
    bool receiving_ = false;  // waiting for a request or for the rest of one
    bool gone_ = false;       // the client has gone, or its socket is closed
    bool stopping_ = false;   // this server ends
    bool cancelled_ = false;
    std::function<void()> cancel_;

    bool watching_ = false;
    bool watch_wanted_ = false;
    char watch_block_[4096] = {};
    boost::asio::steady_timer watch_ended_;

    // The request being served.
    std::string request_id_;
    bool keep_alive_ = false;
    bool http_1_0_ = false;
    int stream_status_ = 0;  // of a streamed reply
};

}  // namespace ballast::http
