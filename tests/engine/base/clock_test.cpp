// SPDX-License-Identifier: MIT
#include "engine/base/clock.h"

#include <ctime>

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(SystemClock, DoesNotRunBackwards) {
    const SystemClock clock;
    Nanoseconds last = clock.now();
    for (int i = 0; i < 1000; ++i) {
        const Nanoseconds now = clock.now();
        ASSERT_GE(now, last);
        last = now;
    }
}

TEST(SystemClock, GivesTheDateOfTheSystem) {
    const std::int64_t before = std::time(nullptr);
    const std::int64_t now = SystemClock().unix_seconds();
    EXPECT_GE(now, before - 1);
    EXPECT_LE(now, static_cast<std::int64_t>(std::time(nullptr)) + 1);
}

TEST(SystemClock, SleepsOnlyForward) {
    const SystemClock clock;
    const Nanoseconds before = clock.slept();
    EXPECT_GE(before, Nanoseconds(0));
    // The two clocks behind it are not read at the same time.
    EXPECT_GE(clock.slept() + std::chrono::milliseconds(50), before);
}

}  // namespace
}  // namespace ballast
