// SPDX-License-Identifier: MIT
// The transport over real sockets, with handlers of its own.
#include "server/http/server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

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

#include "server/http/sse_writer.h"
#include "tests/server/support/fake_engine.h"
#include "tests/server/support/http_client.h"

namespace ballast::http {
namespace {

using test::ClientReply;
using test::eventually;
using test::fetch;
using test::get;
using test::HttpClient;
using test::post_json;
using namespace std::chrono_literals;

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

Task<Reply> hello(Request request) {
    Reply reply;
    reply.body = request.method + " " + request.rest + "|" + request.body + "|" + request.query;
    co_return reply;
}

/// Runs until the test releases it or its client has gone.
Task<Reply> slow(Shared* shared, Connection* connection) {
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
Task<Reply> endless(Shared* shared, Connection* connection) {
    SseWriter writer(*connection);
    Status sent = co_await writer.start();
    std::string block(1 << 16, 'x');
    while (sent) {
        sent = co_await writer.event(block);
    }
    shared->n_cancelled.fetch_add(1);
    co_return Reply::after_stream(false);
}

Task<Reply> three_events(Connection* connection) {
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

Task<Reply> throwing() {
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

TEST(Server, AnswersAndKeepsTheConnection) {
    TestServer server;
    HttpClient client(server.port());
    for (int i = 0; i < 3; ++i) {
        client.send(get("/hello?q=1"));
        const ClientReply reply = client.read_reply();
        EXPECT_EQ(reply.status, 200);
        EXPECT_EQ(reply.body, "GET ||q=1");
        EXPECT_EQ(reply.header("connection"), "keep-alive");
        EXPECT_TRUE(reply.header("x-request-id").starts_with("req_"));
        EXPECT_FALSE(reply.header("date").empty());
    }
    EXPECT_TRUE(server.observer.saw("/hello", 200));
}

TEST(Server, ClosesWhereTheClientAsks) {
    TestServer server;
    HttpClient client(server.port());
    client.send(get("/hello", "Connection: close\r\n"));
    EXPECT_EQ(client.read_reply().header("connection"), "close");
    EXPECT_TRUE(client.closed_within(5s));
    HttpClient old(server.port());
    old.send("GET /hello HTTP/1.0\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(old.read_reply().status, 200);
    EXPECT_TRUE(old.closed_within(5s));
}

TEST(Server, EchoesASaneRequestIdOnly) {
    TestServer server;
    EXPECT_EQ(
        fetch(server.port(), get("/hello", "X-Request-Id: my-id.7\r\n")).header("x-request-id"),
        "my-id.7");
    EXPECT_TRUE(fetch(server.port(), get("/hello", "X-Request-Id: a b\r\n"))
                    .header("x-request-id")
                    .starts_with("req_"));
    const std::string first = fetch(server.port(), get("/nowhere")).header("x-request-id");
    const std::string second = fetch(server.port(), get("/nowhere")).header("x-request-id");
    EXPECT_TRUE(first.starts_with("req_"));
    EXPECT_NE(first, second);
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
    TestServer server;
    HttpClient client(server.port());
    client.send(post_json("/echo", "1") + get("/items/a") + post_json("/echo", "2") +
                get("/hello", "Connection: close\r\n"));
    EXPECT_EQ(client.read_reply().body, "POST |1|");
    EXPECT_EQ(client.read_reply().body, "GET a||");
    EXPECT_EQ(client.read_reply().body, "POST |2|");
    EXPECT_EQ(client.read_reply().status, 200);
    EXPECT_TRUE(client.closed_within(5s));
}

TEST(Server, ServesPipelinedRequestsThatArriveWhileAHandlerWaits) {
    TestServer server;
    HttpClient client(server.port());
    client.send(get("/slow"));
    ASSERT_TRUE(eventually([&] { return server.shared.n_running.load() == 1; }));
    client.send(get("/items/next"));
    std::this_thread::sleep_for(20ms);
    server.shared.release.store(true);
    EXPECT_EQ(client.read_reply().status, 200);
    EXPECT_EQ(client.read_reply().body, "GET next||");
    EXPECT_EQ(server.shared.n_cancelled.load(), 0);
}

TEST(Server, TakesABodyByteByByte) {
    TestServer server;
    HttpClient client(server.port());
    for (const char c : post_json("/echo", "{\"a\":1}")) {
        client.send(std::string(1, c));
    }
    EXPECT_EQ(client.read_reply().body, "POST |{\"a\":1}|");
}

TEST(Server, RefusesUnknownPathsAndMethods) {
    TestServer server;
    HttpClient client(server.port());
    client.send(get("/nowhere"));
    EXPECT_EQ(client.read_reply().status, 404);
    client.send("DELETE /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const ClientReply reply = client.read_reply();
    EXPECT_EQ(reply.status, 405);
    EXPECT_EQ(reply.header("allow"), "GET, HEAD, OPTIONS");
    client.send("BREW /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(client.read_reply().status, 405);
    client.send(post_json("/nowhere", "{}"));
    EXPECT_EQ(client.read_reply().status, 404);
    client.send(get("/items/%zz"));
    EXPECT_EQ(client.read_reply().status, 400);
    client.send(get("/hello"));
    EXPECT_EQ(client.read_reply().status, 200);
    EXPECT_TRUE(server.observer.saw("other", 404));
    EXPECT_FALSE(server.observer.saw("/nowhere", 404));
}

TEST(Server, HeadHasNoBodyAndOptionsGiveNothingAway) {
    TestServer server;
    HttpClient client(server.port());
    client.send("HEAD /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const ClientReply head = client.read_reply(true);
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.header("content-length"), "6");
    client.send(
        "OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n"
        "Access-Control-Request-Method: POST\r\n\r\n");
    const ClientReply options = client.read_reply();
    EXPECT_EQ(options.status, 204);
    EXPECT_EQ(options.header("allow"), "POST, OPTIONS");
    for (const auto& [name, value] : options.headers) {
        EXPECT_FALSE(name.starts_with("access-control")) << name;
    }
    client.send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(client.read_reply().status, 204);
    client.send(get("/hello"));
    EXPECT_EQ(client.read_reply().status, 200);
}

TEST(Server, ChecksHostAndOrigin) {
    TestServer server;
    const auto status = [&](const std::string& headers) {
        return fetch(server.port(), "GET /hello HTTP/1.1\r\n" + headers + "\r\n").status;
    };
    EXPECT_EQ(status(""), 400);
    EXPECT_EQ(status("Host: localhost\r\nHost: localhost\r\n"), 400);
    EXPECT_EQ(status("Host: evil.example\r\n"), 403);
    EXPECT_EQ(status("Host: localhost.\r\n"), 403);
    EXPECT_EQ(status("Host: [::1]:1\r\n"), 200);
    EXPECT_EQ(status("Host: localhost:99\r\n"), 200);
    EXPECT_EQ(status("Host: localhost\r\nOrigin: https://evil.example\r\n"), 403);
    EXPECT_EQ(server.shared.n_calls.load(), 2);
}

TEST(Server, WantsJsonWhereARouteTakesJson) {
    TestServer server;
    const auto status = [&](const std::string& headers) {
        return fetch(server.port(),
                     "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n" + headers +
                         "\r\n{}")
            .status;
    };
    EXPECT_EQ(status("Content-Type: application/json\r\n"), 200);
    EXPECT_EQ(status("Content-Type: application/json; charset=utf-8\r\n"), 200);
    EXPECT_EQ(status("Content-Type: APPLICATION/JSON\r\n"), 200);
    EXPECT_EQ(status(""), 415);
    EXPECT_EQ(status("Content-Type: text/plain\r\n"), 415);
    EXPECT_EQ(status("Content-Type: application/x-www-form-urlencoded\r\n"), 415);
    EXPECT_EQ(status("Content-Type: application/json\r\nContent-Encoding: gzip\r\n"), 415);
    EXPECT_EQ(status("Content-Type: application/json\r\nContent-Encoding: identity\r\n"), 200);
}

TEST(Server, LimitsBodies) {
    TestServer server([](HttpOptions& options) { options.body_bytes_max = 1000; });
    const std::string fits(1000, 'a');
    EXPECT_EQ(fetch(server.port(), post_json("/echo", fits)).status, 200);
    const ClientReply reply = fetch(server.port(), post_json("/echo", fits + "a"));
    EXPECT_EQ(reply.status, 413);
    EXPECT_EQ(reply.header("connection"), "close");
    // The refusal arrives although the client is still sending.
    EXPECT_EQ(fetch(server.port(), post_json("/echo", std::string(8 << 20, 'a'))).status, 413);
    EXPECT_EQ(fetch(server.port(),
                    "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n800\r\n" +
                        std::string(0x800, 'a') + "\r\n0\r\n\r\n")
                  .status,
              413);
}

TEST(Server, LimitsHeaders) {
    TestServer server;
    EXPECT_EQ(fetch(server.port(), get("/hello", "X: " + std::string(15000, 'a') + "\r\n")).status,
              200);
    EXPECT_EQ(fetch(server.port(), get("/hello", "X: " + std::string(17000, 'a') + "\r\n")).status,
              431);
    EXPECT_EQ(fetch(server.port(), get("/" + std::string(1 << 20, 'a'))).status, 431);
}

TEST(Server, AnswersGarbageWith400) {
    TestServer server;
    EXPECT_EQ(fetch(server.port(), "\x16\x03\x01\x02\x00\x01\r\n\r\n").status, 400);
    EXPECT_EQ(fetch(server.port(), "hello\r\n\r\n").status, 400);
    EXPECT_EQ(fetch(server.port(), get("/hello", "A: b\x01\r\n")).status, 400);
    EXPECT_EQ(fetch(server.port(), get("/hello")).status, 200);
}

TEST(Server, MeetsTheExpectationOf100Continue) {
    TestServer server([](HttpOptions& options) { options.body_bytes_max = 1000; });
    HttpClient client(server.port());
    const std::string head =
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Expect: 100-continue\r\n";
    client.send(head + "Content-Length: 2\r\n\r\n");
    EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("{}");
    EXPECT_EQ(client.read_reply().body, "POST |{}|");
    HttpClient refused(server.port());
    refused.send(head + "Content-Length: 5000\r\n\r\n");
    EXPECT_TRUE(refused.read_until("\r\n").starts_with("HTTP/1.1 413"));
    HttpClient other(server.port());
    other.send(get("/hello", "Expect: magic\r\n"));
    EXPECT_EQ(other.read_reply().status, 417);
}

TEST(Server, GivesUpOnSlowHeaders) {
    TestServer server([](HttpOptions& options) { options.header_timeout_seconds = 1; });
    HttpClient silent(server.port());
    HttpClient slow_one(server.port());
    const auto begun = std::chrono::steady_clock::now();
    slow_one.send("GET /hello HTTP/1.1\r\n");
    // A byte now and then does not buy more time.
    for (int i = 0; i < 6; ++i) {
        std::this_thread::sleep_for(150ms);
        slow_one.send("A");
    }
    EXPECT_EQ(slow_one.read_reply().status, 408);
    EXPECT_TRUE(silent.closed_within(5s));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 4s);
}

TEST(Server, GivesUpOnSlowBodiesAndIdleConnections) {
    TestServer server([](HttpOptions& options) {
        options.body_timeout_seconds = 1;
        options.idle_timeout_seconds = 1;
    });
    HttpClient body(server.port());
    body.send(
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 10\r\n\r\n{");
    HttpClient idle(server.port());
    idle.send(get("/hello"));
    EXPECT_EQ(idle.read_reply().status, 200);
    EXPECT_EQ(body.read_reply().status, 408);
    EXPECT_TRUE(idle.closed_within(5s));
}

TEST(Server, DropsARequestThatIsCutOff) {
    TestServer server;
    {
        HttpClient client(server.port());
        client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
    }
    EXPECT_TRUE(eventually([&] { return server.observer.n_open() == 0; }));
    EXPECT_EQ(server.shared.n_calls.load(), 0);
}

TEST(Server, CancelsTheHandlerOfAClientThatHasGone) {
    TestServer server;
    for (const bool hard : {false, true}) {
        const int before = server.shared.n_cancelled.load();
        HttpClient client(server.port());
        client.send(get("/slow"));
        ASSERT_TRUE(eventually([&] { return server.shared.n_running.load() == 1; }));
        if (hard) {
            client.reset();
        } else {
            client.close();
        }
        EXPECT_TRUE(eventually([&] { return server.shared.n_cancelled.load() == before + 1; }));
    }
    EXPECT_TRUE(eventually([&] { return server.observer.saw("/slow", 499); }));
}

TEST(Server, GivesUpOnAClientThatDoesNotRead) {
    TestServer server([](HttpOptions& options) { options.write_timeout_seconds = 1; });
    HttpClient client(server.port());
    client.send(get("/endless"));
    EXPECT_TRUE(eventually([&] { return server.shared.n_cancelled.load() == 1; }));
    EXPECT_TRUE(eventually([&] { return server.observer.n_open() == 0; }));
}

TEST(Server, StreamsEventsInChunks) {
    TestServer server;
    HttpClient client(server.port());
    for (int i = 0; i < 2; ++i) {
        client.send(get("/events"));
        const ClientReply reply = client.read_reply();
        EXPECT_EQ(reply.status, 200);
        EXPECT_EQ(reply.header("content-type"), "text/event-stream");
        EXPECT_EQ(reply.header("cache-control"), "no-cache");
        EXPECT_EQ(reply.body, "data: one\n\ndata: two\n\n: waiting\n\ndata: [DONE]\n\n");
        EXPECT_TRUE(reply.complete);
    }
    HttpClient old(server.port());
    old.send("GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n");
    const std::string all = old.read_to_end();
    EXPECT_TRUE(all.ends_with("\r\n\r\ndata: one\n\ndata: two\n\n: waiting\n\ndata: [DONE]\n\n"));
    EXPECT_EQ(all.find("chunked"), std::string::npos);
}

TEST(Server, TurnsAnExceptionIntoA500WithoutItsText) {
    TestServer server;
    HttpClient client(server.port());
    client.send(get("/throw"));
    const ClientReply reply = client.read_reply();
    EXPECT_EQ(reply.status, 500);
    EXPECT_EQ(reply.body.find("secret"), std::string::npos);
    client.send(get("/hello"));
    EXPECT_EQ(client.read_reply().status, 200);
}

TEST(Server, RefusesConnectionsOverTheCapAndRecovers) {
    TestServer server([](HttpOptions& options) { options.connections_max = 2; });
    {
        HttpClient first(server.port());
        HttpClient second(server.port());
        ASSERT_TRUE(eventually([&] { return server.observer.n_open() == 2; }));
        EXPECT_EQ(fetch(server.port(), get("/hello")).status, 503);
    }
    EXPECT_TRUE(eventually([&] { return fetch(server.port(), get("/hello")).status == 200; }));
}

TEST(Server, ServesManyClientsOnSeveralThreads) {
    TestServer server([](HttpOptions& options) { options.io_threads = 3; });
    std::vector<std::thread> clients;
    std::atomic<int> n_good{0};
    for (int c = 0; c < 8; ++c) {
        clients.emplace_back([&] {
            HttpClient client(server.port());
            for (int i = 0; i < 50; ++i) {
                client.send(get("/items/x"));
                n_good.fetch_add(client.read_reply().body == "GET x||" ? 1 : 0);
                client.send(get("/events"));
                n_good.fetch_add(client.read_reply().complete ? 1 : 0);
            }
        });
    }
    for (auto& client : clients) {
        client.join();
    }
    EXPECT_EQ(n_good.load(), 8 * 100);
}

TEST(Server, StopLetsARunningRequestEnd) {
    TestServer server;
    HttpClient client(server.port());
    client.send(get("/slow"));
    ASSERT_TRUE(eventually([&] { return server.shared.n_running.load() == 1; }));
    std::thread stopper([&] { server.server->stop(10s); });
    std::this_thread::sleep_for(50ms);
    server.shared.release.store(true);
    const ClientReply reply = client.read_reply();
    stopper.join();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.header("connection"), "close");
    EXPECT_EQ(server.shared.n_cancelled.load(), 0);
}

TEST(Server, StopCancelsAtTheDeadlineAndClosesIdleConnections) {
    TestServer server;
    HttpClient idle(server.port());
    idle.send(get("/hello"));
    EXPECT_EQ(idle.read_reply().status, 200);
    HttpClient client(server.port());
    client.send(get("/slow"));
    ASSERT_TRUE(eventually([&] { return server.shared.n_running.load() == 1; }));
    const auto begun = std::chrono::steady_clock::now();
    server.server->stop(100ms);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 3s);
    EXPECT_EQ(client.read_reply().body, "cancelled");
    EXPECT_TRUE(idle.closed_within(1s));
    EXPECT_EQ(server.shared.n_running.load(), 0);
}

TEST(Server, StopDoesNotWaitForAHalfSentRequest) {
    TestServer server;
    HttpClient client(server.port());
    client.send("GET /hello HTTP/1.1\r\n");
    ASSERT_TRUE(eventually([&] { return server.observer.n_open() == 1; }));
    const auto begun = std::chrono::steady_clock::now();
    server.server->stop(50ms);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 3s);
    EXPECT_TRUE(client.closed_within(1s));
}

Result<std::unique_ptr<Server>> try_to_listen(TestServer& other, const HttpOptions& options) {
    return Server::create(
        {options, other.router, TestServer::write_error, other.observer, other.clock});
}

TEST(Server, SaysWhyItCannotListen) {
    TestServer server;
    HttpOptions options;
    options.port = server.port();
    const auto taken = try_to_listen(server, options);
    ASSERT_FALSE(taken.has_value());
    EXPECT_NE(taken.error().message.find("another program uses this port"), std::string::npos);
    EXPECT_NE(taken.error().message.find(std::to_string(server.port())), std::string::npos);
    options.host = "no-such-host.example";
    const auto unknown = try_to_listen(server, options);
    ASSERT_FALSE(unknown.has_value());
    EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidRequest);
    options.host = "127.0.0.1";
    options.port = 65536;
    EXPECT_FALSE(try_to_listen(server, options).has_value());
}

TEST(Server, TakesOverAListeningSocket) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const void* raw = &address;
    ASSERT_EQ(::bind(descriptor, static_cast<const sockaddr*>(raw), sizeof(address)), 0);
    ASSERT_EQ(::listen(descriptor, 8), 0);
    TestServer server([](HttpOptions&) {}, descriptor);
    EXPECT_GT(server.port(), 0);
    EXPECT_EQ(fetch(server.port(), get("/hello")).status, 200);
}

TEST(Server, RefusesADescriptorThatIsNoListeningSocket) {
    TestServer server;
    const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int idle = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int local = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (const int descriptor : {file, idle, local}) {
        const auto refused = Server::create(
            {server.options, server.router, TestServer::write_error, server.observer, server.clock},
            descriptor);
        EXPECT_FALSE(refused.has_value());
        ::close(descriptor);
    }
}

}  // namespace
}  // namespace ballast::http
