// SPDX-License-Identifier: MIT
#include "server/http/request_parser.h"

#include <string>

#include <gtest/gtest.h>

#include "engine/base/rng.h"

namespace ballast::http {
namespace {

using State = RequestParser::State;

/// Feeds all of the bytes in steps of `step`, as a slow network would.
State feed_all(RequestParser& parser, const std::string& bytes, std::size_t step) {
    std::string buffer;
    for (std::size_t i = 0; i < bytes.size(); i += step) {
        buffer += bytes.substr(i, step);
        while (true) {
            const State before = parser.state();
            const std::size_t used = parser.feed(buffer);
            buffer.erase(0, used);
            if (used == 0 && parser.state() == before) {
                break;
            }
        }
    }
    return parser.state();
}

const std::string kPost =
    "POST /v1/x?a=b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";

const std::string kChunked =
    "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(RequestParser, BoundsChunkHeadersAndTrailers) {
    const std::string endless(2 * kHeaderBytesMax, 'a');
    for (const std::string& tail : {"5;" + endless,
                                    "5\r\nhello\r\n0\r\nX: " + endless,
                                    "0\r\nX: " + std::string(200'000, 'a') + "\r\n\r\n"}) {
        for (const std::size_t step : {1000U, 1'000'000U}) {
            RequestParser parser(100);
            ASSERT_EQ(feed_all(parser, kChunked + tail, step), State::kFailed)
                << tail.substr(0, 20);
            EXPECT_EQ(parser.failure_status(), 431);
        }
    }
}

TEST(RequestParser, RefusesTransferCodingsBesidesChunked) {
    RequestParser parser(100);
    EXPECT_EQ(feed_all(parser,
                       "POST / HTTP/1.1\r\nHost: localhost\r\n"
                       "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                       1000),
              State::kFailed);
    EXPECT_EQ(parser.failure_status(), 400);
}

TEST(RequestParser, ReadsARequestHoweverItIsCut) {
    for (const std::size_t step : {1U, 2U, 7U, 1000U}) {
        RequestParser parser(100);
        ASSERT_EQ(feed_all(parser, kPost, step), State::kDone) << step;
        const Request request = parser.take();
        EXPECT_EQ(request.method, "POST");
        EXPECT_EQ(request.path, "/v1/x");
        EXPECT_EQ(request.query, "a=b");
        EXPECT_EQ(request.body, "hello");
        ASSERT_NE(request.header("HOST"), nullptr);
        EXPECT_EQ(*request.header("HOST"), "localhost");
        EXPECT_TRUE(parser.keep_alive());
    }
}

TEST(RequestParser, StopsOnceAtTheEndOfTheHead) {
    RequestParser parser(100);
    const std::size_t used = parser.feed(kPost);
    EXPECT_EQ(parser.state(), State::kBody);
    EXPECT_EQ(used, kPost.size() - 5);
}

TEST(RequestParser, LeavesTheNextRequestAlone) {
    const std::string two = "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\n";
    RequestParser parser(100);
    const std::size_t used = parser.feed(two);
    EXPECT_EQ(parser.state(), State::kDone);
    EXPECT_EQ(two.substr(used), "GET /b HTTP/1.1\r\n");
}

TEST(RequestParser, JoinsChunks) {
    RequestParser parser(100);
    const std::string chunked =
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
    ASSERT_EQ(feed_all(parser, chunked, 1), State::kDone);
    EXPECT_EQ(parser.take().body, "abcde");
}

void expect_failure(const std::string& bytes, int status, std::uint64_t body_max = 100) {
    for (const std::size_t step : {std::size_t{1}, bytes.size()}) {
        RequestParser parser(body_max);
        EXPECT_EQ(feed_all(parser, bytes, step), State::kFailed) << bytes.substr(0, 60);
        EXPECT_EQ(parser.failure_status(), status) << bytes.substr(0, 60);
        EXPECT_FALSE(parser.failure().empty());
    }
}

TEST(RequestParser, RefusesBodiesOverTheLimit) {
    expect_failure("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n", 413);
    expect_failure("POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n", 413);
    expect_failure(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + std::string(101, 'a'), 413);
}

TEST(RequestParser, RefusesHeadersOverTheLimit) {
    expect_failure("GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(17000, 'a') + "\r\n\r\n", 431);
    expect_failure("GET /" + std::string(17000, 'a') + " HTTP/1.1\r\n\r\n", 431);
    std::string many = "GET / HTTP/1.1\r\n";
    for (int i = 0; i < 5000; ++i) {
        many += "A: b\r\n";
    }
    expect_failure(many + "\r\n", 431);
}

TEST(RequestParser, RefusesMalformedRequests) {
    for (const char* bytes : {
             "\r\n\r\n\r\n\r\n",
             "GET\r\n\r\n",
             "GET / HTTP/1.1\r\nno colon\r\n\r\n",
             "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
             "GET / HTTP/1.1\r\nA: b\x01\r\n\r\n",
             "G@T / HTTP/1.1 x\r\n\r\n",
             "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
             "POST / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n",
             "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
             "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
             "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
             "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\na",
             "GET http://localhost/ HTTP/1.1\r\n\r\n",
             "GET * HTTP/1.1\r\n\r\n",
         }) {
        expect_failure(bytes, 400);
    }
    expect_failure("GET / HTTP/2.0\r\n\r\n", 505);
    expect_failure("GET / FTP/1.1\r\n\r\n", 505);
}

TEST(RequestParser, SurvivesRandomBytesAndRandomChanges) {
    Rng rng(1);
    for (int round = 0; round < 2000; ++round) {
        std::string bytes = kPost + kPost;
        const std::uint64_t n_changes = 1 + rng.below(4);
        for (std::uint64_t i = 0; i < n_changes; ++i) {
            bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
        }
        RequestParser parser(1000);
        feed_all(parser, bytes, 1 + rng.below(80));
        if (parser.state() == State::kFailed) {
            EXPECT_GE(parser.failure_status(), 400);
        }
    }
}

}  // namespace
}  // namespace ballast::http
