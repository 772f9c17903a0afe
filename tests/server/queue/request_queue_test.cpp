// SPDX-License-Identifier: MIT
#include "server/queue/request_queue.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ballast::queue {
namespace {

class RecordingSink final : public runtime::TokenSink {
  public:
    void on_start() override {}
    void on_text(runtime::TextDelta /*delta*/) override {}
    void on_finish(runtime::FinishReason /*reason*/, const runtime::JobStats& /*stats*/) override {}
    void on_error(Error error) override { errors.push_back(std::move(error)); }
    bool cancelled() const override { return gone.load(); }

    std::vector<Error> errors;
    std::atomic<bool> gone{false};
};

std::shared_ptr<runtime::Job> job(std::uint64_t id) {
    auto result = std::make_shared<runtime::Job>();
    result->id = id;
    result->sink = std::make_shared<RecordingSink>();
    return result;
}

RecordingSink& sink_of(const std::shared_ptr<runtime::Job>& one) {
    return dynamic_cast<RecordingSink&>(*one->sink);
}

TEST(RequestQueue, GivesJobsInTheOrderTheyCame) {
    RequestQueue queue(8);
    for (std::uint64_t i = 0; i < 5; ++i) {
        ASSERT_TRUE(queue.push({job(i)}).has_value());
    }
    EXPECT_EQ(queue.size(), 5U);
    for (std::uint64_t i = 0; i < 5; ++i) {
        const auto taken = queue.try_take();
        ASSERT_NE(taken, nullptr);
        EXPECT_EQ(taken->id, i);
    }
    EXPECT_EQ(queue.try_take(), nullptr);
}

TEST(RequestQueue, TakesAllJobsOfARequestOrNone) {
    RequestQueue queue(3);
    ASSERT_TRUE(queue.push({job(0), job(1)}).has_value());
    const Status refused = queue.push({job(2), job(3)});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
    EXPECT_EQ(queue.size(), 2U);
    EXPECT_TRUE(queue.push({job(4)}).has_value());
    EXPECT_FALSE(queue.push({job(5)}).has_value());
}

TEST(RequestQueue, MakesRoomOfJobsThatNobodyWaitsFor) {
    RequestQueue queue(2);
    const auto gone = job(0);
    ASSERT_TRUE(queue.push({gone, job(1)}).has_value());
    EXPECT_FALSE(queue.push({job(2)}).has_value());
    sink_of(gone).gone.store(true);
    EXPECT_TRUE(queue.push({job(3)}).has_value());
    EXPECT_EQ(queue.try_take()->id, 1U);
    EXPECT_EQ(queue.try_take()->id, 3U);
}

TEST(RequestQueue, DoesNotHandOutACancelledJob) {
    RequestQueue queue(4);
    const auto gone = job(0);
    ASSERT_TRUE(queue.push({gone, job(1)}).has_value());
    sink_of(gone).gone.store(true);
    EXPECT_EQ(queue.try_take()->id, 1U);
}

TEST(RequestQueue, AnswersWaitingJobsWhenItCloses) {
    RequestQueue queue(4);
    const auto waiting = job(0);
    ASSERT_TRUE(queue.push({waiting}).has_value());
    EXPECT_FALSE(queue.closed());
    queue.close();
    EXPECT_TRUE(queue.closed());
    ASSERT_EQ(sink_of(waiting).errors.size(), 1U);
    EXPECT_EQ(sink_of(waiting).errors[0].code, ErrorCode::kCancelled);
    EXPECT_EQ(queue.try_take(), nullptr);
    const Status refused = queue.push({job(1)});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kCancelled);
}

TEST(RequestQueue, WakesTheEngineForAJobAndForItsEnd) {
    RequestQueue queue(4);
    std::atomic<int> n_taken{0};
    std::atomic<bool> ended{false};
    std::thread engine([&] {
        while (!queue.closed()) {
            queue.wait(std::chrono::minutes(5));
            while (queue.try_take() != nullptr) {
                n_taken.fetch_add(1);
            }
        }
        ended.store(true);
    });
    for (std::uint64_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(queue.push({job(i)}).has_value());
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (n_taken.load() != static_cast<int>(i) + 1) {
            ASSERT_LT(std::chrono::steady_clock::now(), end) << "the engine slept on";
            std::this_thread::yield();
        }
    }
    queue.close();
    engine.join();
    EXPECT_TRUE(ended.load());
}

TEST(RequestQueue, WaitEndsWhenItsTimeIsOver) {
    RequestQueue queue(4);
    queue.wait(std::chrono::milliseconds(5));
    EXPECT_EQ(queue.try_take(), nullptr);
}

TEST(RequestQueue, KeepsItsBoundWithManyProducers) {
    RequestQueue queue(16);
    std::atomic<int> n_admitted{0};
    std::vector<std::thread> producers;
    for (int p = 0; p < 4; ++p) {
        producers.emplace_back([&] {
            for (std::uint64_t i = 0; i < 100; ++i) {
                if (queue.push({job(i), job(i)}).has_value()) {
                    n_admitted.fetch_add(2);
                }
                EXPECT_LE(queue.size(), 16U);
            }
        });
    }
    int n_taken = 0;
    for (int i = 0; i < 2000; ++i) {
        n_taken += queue.try_take() != nullptr ? 1 : 0;
    }
    for (auto& producer : producers) {
        producer.join();
    }
    while (queue.try_take() != nullptr) {
        ++n_taken;
    }
    EXPECT_EQ(n_taken, n_admitted.load());
}

}  // namespace
}  // namespace ballast::queue
