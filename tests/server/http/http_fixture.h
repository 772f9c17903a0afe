// SPDX-License-Identifier: MIT
// The HTTP server over real sockets, with handlers of its own.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "server/http/server.h"
#include "server/http/sse_writer.h"
#include "tests/server/support/fake_engine.h"
#include "tests/server/support/http_client.h"

namespace ballast::http {

using test::ClientReply;
using test::eventually;
using test::fetch;
using test::get;
using test::HttpClient;
using test::post_json;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

class RecordingObserver final : public Observer {
  public:
    void on_reply(std::string_view endpoint, int status, Nanoseconds /*duration*/) override {
        const std::lock_guard lock(mutex_);
        replies_.insert({std::string(endpoint), status});
    }
    void on_connections(int n_open) override { n_open_.store(n_open); }
    bool saw(const std::string& endpoint, int status) const {
        const std::lock_guard lock(mutex_);
        return replies_.count({endpoint, status}) > 0;
    }
    int n_open() const { return n_open_.load(); }

  private:
    mutable std::mutex mutex_;
    std::set<std::pair<std::string, int>> replies_;
    std::atomic<int> n_open_{0};
};

/// What the test's handlers share with the test.
struct Shared {
    std::atomic<bool> release{false};
    std::atomic<int> n_running{0};
    std::atomic<int> n_cancelled{0};
    std::atomic<int> n_calls{0};
};

inline Task<Reply> hello(Request request) {
    Reply reply;
    reply.body = request.method + " " + request.rest + "|" + request.body + "|" + request.query;
    co_return reply;
}

/// Runs until the test releases it or its client has gone.
inline Task<Reply> slow(Shared* shared, Connection* connection) {
    const auto cancelled = std::make_shared<bool>(false);
    connection->on_cancel([cancelled] { *cancelled = true; });
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    shared->n_running.fetch_add(1);
    while (!shared->release.load() && !*cancelled) {
        timer.expires_after(2ms);
        co_await timer.async_wait(boost::asio::use_awaitable);
    }
    shared->n_running.fetch_sub(1);
    Reply reply;
    if (*cancelled) {
        shared->n_cancelled.fetch_add(1);
        reply.status = 503;
        reply.body = "cancelled";
    }
    co_return reply;
}

/// Sends events until nobody reads them.
inline Task<Reply> endless(Shared* shared, Connection* connection) {
    SseWriter writer(*connection);
    Status sent = co_await writer.start();
    std::string block(1 << 16, 'x');
    while (sent) {
        sent = co_await writer.event(block);
    }
    shared->n_cancelled.fetch_add(1);
    co_return Reply::after_stream(false);
}

inline Task<Reply> three_events(Connection* connection) {
    SseWriter writer(*connection);
    Status sent = co_await writer.start();
    for (const char* text : {"one", "two"}) {
        std::string data = text;
        sent = co_await writer.event(std::move(data));
    }
    std::string waiting = "waiting";
    sent = co_await writer.comment(std::move(waiting));
    sent = co_await writer.done();
    co_return Reply::after_stream(sent.has_value());
}

inline Task<Reply> throwing() {
    throw std::runtime_error("secret");
    co_return Reply{};
}

/// A server on a free port with those handlers and short timeouts.
class TestServer {
  public:
    explicit TestServer(
        const std::function<void(HttpOptions&)>& change = [](HttpOptions&) {},
        int inherited_fd = -1) {
        options.port = 0;
        change(options);
        const auto count = [this] { shared.n_calls.fetch_add(1); };
        const auto plain = [count](Request request, Connection&) {
            count();
            return hello(std::move(request));
        };
        router.add({"GET", "/hello", BodyKind::kNone, plain});
        router.add({"GET", "/items/{id}", BodyKind::kNone, plain});
        router.add({"POST", "/echo", BodyKind::kJson, plain});
        router.add({"GET", "/slow", BodyKind::kNone, [this](Request, Connection& connection) {
                        return slow(&shared, &connection);
                    }});
        router.add({"GET", "/endless", BodyKind::kNone, [this](Request, Connection& connection) {
                        return endless(&shared, &connection);
                    }});
        router.add({"GET", "/events", BodyKind::kNone, [](Request, Connection& connection) {
                        return three_events(&connection);
                    }});
        router.add(
            {"GET", "/throw", BodyKind::kNone, [](Request, Connection&) { return throwing(); }});
        auto made = Server::create({options, router, write_error, observer, clock}, inherited_fd);
        EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
        server = std::move(*made);
        server->start();
    }

    static Reply write_error(int status, const std::string& message) {
        Reply reply;
        reply.status = status;
        reply.body = "error: " + message;
        return reply;
    }

    int port() const { return server->port(); }

    HttpOptions options;
    Router router;
    RecordingObserver observer;
    SystemClock clock;
    Shared shared;
    std::unique_ptr<Server> server;
};

}  // namespace ballast::http
