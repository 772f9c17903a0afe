// SPDX-License-Identifier: MIT
#include "server/http/reply.h"

#include <gtest/gtest.h>

#include "server/http/sse_writer.h"

namespace ballast::http {
namespace {

TEST(Reply, HeadIsWrittenExactly) {
    Reply reply;
    reply.body = "{}";
    reply.headers.push_back({"Retry-After", "1"});
    HeadContext context;
    context.request_id = "req_1";
    context.unix_seconds = 784111777;  // the example of RFC 9110
    EXPECT_EQ(serialize_head(reply, context),
              "HTTP/1.1 200 OK\r\n"
              "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
              "Content-Type: application/json\r\n"
              "X-Content-Type-Options: nosniff\r\n"
              "Content-Length: 2\r\n"
              "Retry-After: 1\r\n"
              "x-request-id: req_1\r\n"
              "Connection: keep-alive\r\n\r\n");
}

TEST(Reply, AStreamsHeadHasNoLength) {
    Reply reply;
    HeadContext context;
    context.chunked = true;
    context.keep_alive = false;
    const std::string chunked = serialize_head(reply, context);
    EXPECT_NE(chunked.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
    EXPECT_NE(chunked.find("Connection: close\r\n"), std::string::npos);
    EXPECT_EQ(chunked.find("Content-Length"), std::string::npos);
    context.chunked = false;
    context.until_close = true;
    const std::string plain = serialize_head(reply, context);
    EXPECT_EQ(plain.find("Transfer-Encoding"), std::string::npos);
    EXPECT_EQ(plain.find("Content-Length"), std::string::npos);
}

TEST(Reply, EventsAreFramed) {
    EXPECT_EQ(sse_event("[DONE]"), "data: [DONE]\n\n");
}

TEST(Request, EchoesOnlySaneIds) {
    EXPECT_TRUE(is_sane_request_id("abc-DEF_1.2"));
    EXPECT_TRUE(is_sane_request_id(std::string(128, 'a')));
    EXPECT_FALSE(is_sane_request_id(""));
    EXPECT_FALSE(is_sane_request_id(std::string(129, 'a')));
    EXPECT_FALSE(is_sane_request_id("a b"));
    EXPECT_FALSE(is_sane_request_id("a\r\nSet-Cookie: x"));
    EXPECT_FALSE(is_sane_request_id("\xC3\xA4"));
}

TEST(Request, DecodesPercentEscapes) {
    std::string out;
    EXPECT_TRUE(percent_decode("a%2Fb%3ac", out));
    EXPECT_EQ(out, "a/b:c");
    for (const char* broken : {"%", "%2", "%zz", "a%0", "%00"}) {
        EXPECT_FALSE(percent_decode(broken, out)) << broken;
    }
}

}  // namespace
}  // namespace ballast::http
