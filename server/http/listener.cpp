// SPDX-License-Identifier: MIT
// Binding, accepting, and the list of sessions that the ordered stop works on.
#include "server/http/listener.h"

#include <sys/socket.h>

#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "engine/base/log.h"

namespace ballast::http {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
// Connections beyond the cap that get a 503 instead of silence; beyond these they are closed.
constexpr std::size_t kRefusalsMax = 16;

std::string endpoint_text(const tcp::endpoint& endpoint) {
    const std::string address = endpoint.address().to_string();
    return fmt::format(
        fmt::runtime(endpoint.address().is_v6() ? "[{}]:{}" : "{}:{}"), address, endpoint.port());
}

tl::unexpected<Error> bind_error(const tcp::endpoint& endpoint, boost::system::error_code error) {
    const std::string where = endpoint_text(endpoint);
    if (error == asio::error::address_in_use) {
        return fail(ErrorCode::kIo,
                    fmt::format("Cannot listen on {}: another program uses this port. Stop it or "
                                "choose another with --port.",
                                where));
    }
    if (error == asio::error::access_denied) {
        return fail(ErrorCode::kIo,
                    fmt::format("Cannot listen on {}: no permission for this port. Choose one "
                                "above 1023 with --port.",
                                where));
    }
    return fail(ErrorCode::kIo, fmt::format("Cannot listen on {}: {}.", where, error.message()));
}

/// Takes over a socket that the service manager has bound.
Result<tcp::acceptor> adopt(const asio::any_io_executor& executor, int descriptor) {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    void* raw = &address;
    if (getsockname(descriptor, static_cast<sockaddr*>(raw), &length) != 0) {
        return fail(ErrorCode::kIo,
                    fmt::format("The inherited descriptor {} is not a socket.", descriptor));
    }
    if (address.ss_family != AF_INET && address.ss_family != AF_INET6) {
        return fail(ErrorCode::kUnsupported, "The inherited socket is not a TCP socket.");
    }
    int listening = 0;
    socklen_t option_length = sizeof(listening);
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &option_length) != 0 ||
        listening == 0) {
        return fail(ErrorCode::kIo, "The inherited socket does not listen.");
    }
    tcp::acceptor acceptor(executor);
    boost::system::error_code error;
    acceptor.assign(address.ss_family == AF_INET ? tcp::v4() : tcp::v6(), descriptor, error);
    if (error) {
        return fail(ErrorCode::kIo,
                    fmt::format("Cannot use the inherited socket: {}.", error.message()));
    }
    return acceptor;
}

}  // namespace

Result<tcp::acceptor> open_acceptor(asio::io_context& io,
                                    const HttpOptions& options,
                                    int inherited_fd) {
    const asio::any_io_executor executor = asio::make_strand(io);
    if (inherited_fd >= 0) {
        return adopt(executor, inherited_fd);
    }
    if (options.port < 0 || options.port > 65535) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("The port {} is not between 0 and 65535.", options.port));
    }
    std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
    if (host.starts_with('[') && host.ends_with(']')) {
        host = host.substr(1, host.size() - 2);
    }
    boost::system::error_code error;
    const asio::ip::address address = asio::ip::make_address(host, error);
    if (error) {
        return fail(
            ErrorCode::kInvalidRequest,
            fmt::format("The host '{}' is neither an IP address nor localhost.", options.host));
    }
    const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(options.port));
    tcp::acceptor acceptor(executor);
    acceptor.open(endpoint.protocol(), error);
    if (!error) {
        // A restart must not wait for old connections in TIME_WAIT.
        acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    }
    if (!error) {
        acceptor.bind(endpoint, error);
    }
    if (!error) {
        acceptor.listen(asio::socket_base::max_listen_connections, error);
    }
    if (error) {
        return bind_error(endpoint, error);
    }
    return acceptor;
}

Listener::Listener(asio::io_context& io, tcp::acceptor acceptor, SessionContext& context)
    : io_(io), acceptor_(std::move(acceptor)), context_(context) {
    boost::system::error_code ignored;
    port_ = acceptor_.local_endpoint(ignored).port();
}

void Listener::start() {
    accepting_ = true;
    asio::co_spawn(acceptor_.get_executor(), accept_loop(), [this](std::exception_ptr failure) {
        if (failure) {
            try {
                std::rethrow_exception(failure);
            } catch (const std::exception& e) {
                log_error("Accepting connections ended with an exception: {}", e.what());
            }
        }
        const std::lock_guard lock(mutex_);
        accepting_ = false;
        changed_.notify_all();
    });
}

Task<void> Listener::accept_loop() {
    asio::steady_timer pause(acceptor_.get_executor());
    while (acceptor_.is_open()) {
        auto [error, socket] = co_await acceptor_.async_accept(asio::make_strand(io_), kNoThrow);
        if (!acceptor_.is_open()) {
            break;
        }
        if (error) {
            // Out of descriptors, or the client was gone before we came: neither may spin.
            log_warning("Cannot accept a connection: {}", error.message());
            pause.expires_after(std::chrono::milliseconds(100));
            auto [ignored] = co_await pause.async_wait(kNoThrow);
            static_cast<void>(ignored);
            continue;
        }
        add_session(std::move(socket));
    }
}

void Listener::add_session(tcp::socket socket) {
    std::shared_ptr<Session> session;
    std::size_t n_open = 0;
    {
        const std::lock_guard lock(mutex_);
        const auto cap = static_cast<std::size_t>(context_.parts.options.connections_max);
        n_open = sessions_.size();
        if (stopping_ || n_open >= cap + kRefusalsMax) {
            return;  // the socket's destructor closes it
        }
        session = std::make_shared<Session>(std::move(socket), context_, n_open >= cap);
        sessions_.emplace(session.get(), session);
        ++n_open;
    }
    context_.parts.observer.on_connections(static_cast<int>(n_open));
    session->start([this, raw = session.get()] { remove_session(raw); });
}

void Listener::remove_session(const Session* session) {
    const std::lock_guard lock(mutex_);
    sessions_.erase(session);
    context_.parts.observer.on_connections(static_cast<int>(sessions_.size()));
    changed_.notify_all();
}

void Listener::for_each_session(void (Session::*method)()) {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, weak] : sessions_) {
        if (const auto session = weak.lock()) {
            (session.get()->*method)();
        }
    }
}

void Listener::begin_stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    asio::post(acceptor_.get_executor(), [this] {
        boost::system::error_code ignored;
        acceptor_.close(ignored);
    });
    for_each_session(&Session::begin_stop);
}

void Listener::cancel_handlers() {
    for_each_session(&Session::cancel_handler);
}

void Listener::abort_sessions() {
    for_each_session(&Session::abort);
}

bool Listener::wait_until_empty(Nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return sessions_.empty() && !accepting_; });
}

}  // namespace ballast::http
