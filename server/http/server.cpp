// SPDX-License-Identifier: MIT
// Owns the io threads and performs the ordered stop.
#include "server/http/server.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "server/http/listener.h"

namespace ballast::http {

namespace asio = boost::asio;

namespace {

// Idle connections get this long to close even without a deadline. After the deadline, handlers
// get a while to write an error, then the sockets a while to close: far more than either needs.
constexpr auto kCloseTime = std::chrono::milliseconds(50);
constexpr auto kCancelTime = std::chrono::milliseconds(500);
constexpr auto kAbortTime = std::chrono::seconds(2);

}  // namespace

struct Server::State {
    explicit State(ServerParts server_parts)
        : io(server_parts.options.io_threads),
          work(io.get_executor()),
          context{server_parts,
                  HostCheck(server_parts.options.host, server_parts.options.allowed_hosts)} {
        context.id_seed = static_cast<std::uint64_t>(server_parts.clock.now().count()) ^
                          (static_cast<std::uint64_t>(server_parts.clock.unix_seconds()) << 32);
    }

    // Destroyed in reverse: what did not end in time goes with the io context, last of all.
    asio::io_context io;
    asio::executor_work_guard<asio::io_context::executor_type> work;
    SessionContext context;
    std::unique_ptr<Listener> listener;
    std::vector<std::unique_ptr<Thread>> threads;
    bool stopped = false;
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
    stop(Nanoseconds{0});
}

Result<std::unique_ptr<Server>> Server::create(ServerParts parts, int inherited_fd) {
    auto state = std::make_unique<State>(parts);
    BALLAST_TRY(auto acceptor, open_acceptor(state->io, parts.options, inherited_fd));
    state->listener = std::make_unique<Listener>(state->io, std::move(acceptor), state->context);
    return std::make_unique<Server>(std::move(state));
}

int Server::port() const {
    return state_->listener->port();
}

void Server::start() {
    state_->listener->start();
    const int n_threads = std::max(1, state_->context.parts.options.io_threads);
    for (int i = 0; i < n_threads; ++i) {
        auto thread = std::make_unique<Thread>();
        thread->start(fmt::format("ballast-io-{}", i), [this](StopToken) {
            // Coroutines catch at their own roots; this is for what Asio itself may throw.
            while (!state_->io.stopped()) {
                try {
                    state_->io.run();
                } catch (const std::exception& e) {
                    log_error("An io thread caught an exception: {}", e.what());
                }
            }
        });
        state_->threads.push_back(std::move(thread));
    }
}

void Server::stop(Nanoseconds deadline) {
    if (state_->stopped) {
        return;
    }
    state_->stopped = true;
    if (!state_->threads.empty()) {
        Listener& listener = *state_->listener;
        listener.begin_stop();
        if (!listener.wait_until_empty(std::max<Nanoseconds>(deadline, kCloseTime))) {
            log_warning("Requests still ran at the deadline and are cancelled.");
            listener.cancel_handlers();
            if (!listener.wait_until_empty(kCancelTime)) {
                listener.abort_sessions();
                if (!listener.wait_until_empty(kAbortTime)) {
                    log_error("Some connections did not end; they are dropped.");
                }
            }
        }
    }
    state_->work.reset();
    state_->io.stop();
    for (const auto& thread : state_->threads) {
        thread->stop();
    }
}

}  // namespace ballast::http
