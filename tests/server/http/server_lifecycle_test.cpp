// SPDX-License-Identifier: MIT
// Timeouts, disconnects, streams, listening and the ordered stop.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/server/http/http_fixture.h"

namespace ballast::http {
namespace {

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
        HttpClient third(server.port());
        third.send(get("/hello"));
        const ClientReply refused = third.read_reply();
        EXPECT_EQ(refused.status, 503);
        EXPECT_EQ(refused.header("connection"), "close");
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
