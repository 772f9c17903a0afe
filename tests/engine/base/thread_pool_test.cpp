// SPDX-License-Identifier: MIT
#include "engine/base/thread_pool.h"

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(ThreadPool, CallsTheJobOnceOnEachThread) {
    for (const int n_threads : {1, 2, 3, 8}) {
        ThreadPool pool(n_threads);
        ASSERT_EQ(pool.size(), n_threads);
        std::vector<std::atomic<int>> calls(static_cast<std::size_t>(n_threads));
        const auto caller = std::this_thread::get_id();
        pool.run([&](int index) {
            ++calls[static_cast<std::size_t>(index)];
            EXPECT_EQ(index == 0, std::this_thread::get_id() == caller);
        });
        for (const auto& count : calls) {
            EXPECT_EQ(count.load(), 1);
        }
    }
}

// Each job writes plain memory that the caller then reads: a lost or early return would show as a
// wrong sum (and as a race under ThreadSanitizer).
TEST(ThreadPool, HasFinishedEveryShareWhenRunReturns) {
    constexpr int kThreads = 4;
    constexpr int kRounds = 1000;
    ThreadPool pool(kThreads);
    std::vector<std::uint64_t> shares(kThreads, 0);
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        pool.run([&](int index) { shares[static_cast<std::size_t>(index)] += round; });
        for (const std::uint64_t share : shares) {
            ASSERT_EQ(share, round * (round + 1) / 2);
        }
    }
}

// Gaps long enough for the workers to fall asleep, short enough to meet them on their way there.
TEST(ThreadPool, WakesWorkersFromEveryStageOfWaiting) {
    ThreadPool pool(3);
    std::atomic<int> total{0};
    constexpr int kRounds = 300;
    for (int round = 0; round < kRounds; ++round) {
        pool.run([&](int) { ++total; });
        std::this_thread::sleep_for(std::chrono::microseconds(round % 30 * 20));
    }
    EXPECT_EQ(total.load(), 3 * kRounds);
}

TEST(ThreadPool, CanBeDestroyedAtOnceOrAfterWork) {
    for (int round = 0; round < 100; ++round) {
        ThreadPool pool(4);
        if (round % 2 == 1) {
            std::atomic<int> calls{0};
            pool.run([&](int) { ++calls; });
            ASSERT_EQ(calls.load(), 4);
        }
    }
}

TEST(ThreadPool, UsesNoProcessorTimeWhenIdle) {
    ThreadPool pool(4);
    pool.run([](int) {});
    const auto used_ms = [] {
        timespec now = {};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
    };
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const auto before = used_ms();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    // Three spinning workers would use 300 ms of each processor.
    EXPECT_LT(used_ms() - before, 50);
}

}  // namespace
}  // namespace ballast
