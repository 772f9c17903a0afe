// SPDX-License-Identifier: MIT
#include "engine/base/thread.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(Thread, RunsUntilItIsStopped) {
    std::atomic<bool> ended{false};
    Thread thread;
    EXPECT_FALSE(thread.running());
    thread.start("worker", [&](StopToken stop) {
        while (!stop.stop_requested()) {
            std::this_thread::yield();
        }
        ended = true;
    });
    EXPECT_TRUE(thread.running());
    thread.stop();
    EXPECT_TRUE(ended);
    EXPECT_FALSE(thread.running());
    thread.stop();
}

TEST(Thread, StopsWhenItIsDestroyedAndCanBeStartedAgain) {
    std::atomic<int> ends{0};
    const auto body = [&](StopToken stop) {
        while (!stop.stop_requested()) {
            std::this_thread::yield();
        }
        ++ends;
    };
    {
        Thread thread;
        thread.start("first", body);
        thread.start("second", body);
        EXPECT_EQ(ends, 1);
    }
    EXPECT_EQ(ends, 2);
}

TEST(Thread, CarriesItsNameCutToWhatTheSystemAllows) {
    std::string name;
    Thread thread;
    thread.start("a-name-of-more-than-15", [&](StopToken) {
        std::array<char, 64> buffer{};
        pthread_getname_np(pthread_self(), buffer.data(), buffer.size());
        name = buffer.data();
    });
    thread.stop();
    EXPECT_EQ(name, "a-name-of-more-");
}

}  // namespace
}  // namespace ballast
