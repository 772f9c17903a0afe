// SPDX-License-Identifier: MIT
#include "server/queue/token_stream.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

#include "tests/server/support/fake_engine.h"

namespace ballast::queue {
namespace {

namespace asio = boost::asio;
using Kind = StreamEvent::Kind;
using test::token;

constexpr std::chrono::seconds kLong{10};

/// Fetches until the request has ended or a wait was fruitless.
asio::awaitable<void> read_all(std::shared_ptr<TokenStream> stream,
                               Nanoseconds timeout,
                               std::vector<StreamEvent>* events,
                               int n_ends) {
    while (n_ends > 0) {
        auto event = co_await stream->next(timeout);
        if (!event) {
            co_return;
        }
        const Kind kind = event->kind;
        events->push_back(std::move(*event));
        if (kind == Kind::kFinished || kind == Kind::kFailed) {
            --n_ends;
        }
        if (kind == Kind::kCancelled) {
            co_return;
        }
    }
}

std::vector<StreamEvent> drain(const std::shared_ptr<TokenStream>& stream,
                               Nanoseconds timeout = kLong,
                               int n_ends = 1) {
    asio::io_context io;
    std::vector<StreamEvent> events;
    asio::co_spawn(io, read_all(stream, timeout, &events, n_ends), asio::detached);
    io.run();
    return events;
}

TEST(TokenStream, GivesEventsInOrder) {
    const auto stream = TokenStream::create(1, 1000);
    const auto sink = stream->sink(0);
    sink->on_start();
    sink->on_text(token("a"));
    sink->on_finish(runtime::FinishReason::kLength, test::some_stats());
    const auto events = drain(stream);
    ASSERT_EQ(events.size(), 3U);
    EXPECT_EQ(events[0].kind, Kind::kStarted);
    EXPECT_EQ(events[1].kind, Kind::kText);
    EXPECT_EQ(events[1].delta.text, "a");
    EXPECT_EQ(events[2].kind, Kind::kFinished);
    EXPECT_EQ(events[2].reason, runtime::FinishReason::kLength);
    EXPECT_EQ(events[2].stats.prompt_tokens, 7);
}

TEST(TokenStream, JoinsTextThatNobodyHasFetched) {
    const auto stream = TokenStream::create(2, 1000);
    stream->sink(0)->on_text(token("a"));
    stream->sink(1)->on_text(token("x"));
    auto second = token("b");
    second.logprobs.resize(1);
    stream->sink(0)->on_text(std::move(second));
    const auto events = drain(stream, std::chrono::milliseconds(1), 2);
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0].choice, 0);
    EXPECT_EQ(events[0].delta.text, "ab");
    EXPECT_EQ(events[0].delta.n_tokens, 2);
    EXPECT_EQ(events[0].delta.logprobs.size(), 1U);
    EXPECT_EQ(events[1].choice, 1);
    EXPECT_EQ(events[1].delta.text, "x");
}

TEST(TokenStream, CancelsWhenTheReaderFallsTooFarBehind) {
    const auto stream = TokenStream::create(1, 10);
    const auto sink = stream->sink(0);
    sink->on_text(token("12345"));
    EXPECT_FALSE(sink->cancelled());
    sink->on_text(token("67890"));
    EXPECT_FALSE(sink->cancelled());
    sink->on_text(token("!"));
    EXPECT_TRUE(sink->cancelled());
    const auto events = drain(stream);
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].kind, Kind::kCancelled);
}

TEST(TokenStream, CountsOnlyWhatIsUnread) {
    const auto stream = TokenStream::create(1, 10);
    for (int i = 0; i < 5; ++i) {
        stream->sink(0)->on_text(token("1234567890"));
        EXPECT_EQ(drain(stream, std::chrono::milliseconds(1)).size(), 1U);
    }
    EXPECT_FALSE(stream->cancelled());
}

TEST(TokenStream, WaitsNoLongerThanAsked) {
    const auto stream = TokenStream::create(1, 10);
    EXPECT_TRUE(drain(stream, std::chrono::milliseconds(5)).empty());
}

TEST(TokenStream, CancelWakesTheReaderAndIsSeenByTheEngine) {
    const auto stream = TokenStream::create(1, 1000);
    const auto sink = stream->sink(0);
    std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        stream->cancel({ErrorCode::kCancelled, "gone"});
    });
    const auto events = drain(stream, std::chrono::minutes(5));
    other.join();
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].kind, Kind::kCancelled);
    EXPECT_EQ(events[0].error.message, "gone");
    EXPECT_TRUE(sink->cancelled());
    sink->on_text(token("late"));  // the engine may not have looked yet
}

TEST(TokenStream, LosesNothingBetweenTwoThreads) {
    constexpr int kTokens = 20'000;
    const auto stream = TokenStream::create(1, 100 << 20);
    std::string sent;
    std::thread engine([&, sink = stream->sink(0)] {
        sink->on_start();
        for (int i = 0; i < kTokens; ++i) {
            const std::string text = std::to_string(i) + " ";
            sent += text;
            sink->on_text(token(text));
            if (i % 64 == 0) {
                std::this_thread::yield();
            }
        }
        sink->on_finish(runtime::FinishReason::kStop, {});
    });
    asio::io_context io;
    std::vector<StreamEvent> events;
    asio::co_spawn(asio::make_strand(io), read_all(stream, kLong, &events, 1), asio::detached);
    std::thread second([&] { io.run(); });
    io.run();
    second.join();
    engine.join();
    std::string got;
    int n_tokens = 0;
    for (const StreamEvent& event : events) {
        got += event.delta.text;
        n_tokens += event.delta.n_tokens;
    }
    EXPECT_EQ(got, sent);
    EXPECT_EQ(n_tokens, kTokens);
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events.back().kind, Kind::kFinished);
}

TEST(TokenStream, OutlivesAReaderThatIsDestroyedWhileItWaits) {
    const auto stream = TokenStream::create(1, 1000);
    const auto sink = stream->sink(0);
    std::vector<StreamEvent> events;
    {
        asio::io_context io;
        asio::co_spawn(io, read_all(stream, std::chrono::minutes(5), &events, 1), asio::detached);
        io.poll();
    }
    sink->on_text(token("a"));
    sink->on_finish(runtime::FinishReason::kStop, {});
    EXPECT_TRUE(events.empty());
    EXPECT_EQ(drain(stream).size(), 2U);
}

}  // namespace
}  // namespace ballast::queue
