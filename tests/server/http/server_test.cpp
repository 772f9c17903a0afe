// SPDX-License-Identifier: MIT
// Requests, refusals and limits over real sockets.
#include <gtest/gtest.h>

#include "tests/server/http/http_fixture.h"

namespace ballast::http {
namespace {

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
    EXPECT_EQ(head.header("content-length"), "7");  // "HEAD ||"
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

}  // namespace
}  // namespace ballast::http
