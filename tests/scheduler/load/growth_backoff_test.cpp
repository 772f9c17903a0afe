// SPDX-License-Identifier: MIT
#include "scheduler/load/growth_backoff.h"

#include <gtest/gtest.h>

namespace ballast::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kBudget = 1000;

/// As LoadControl asks it.
std::uint64_t allowance(GrowthBackoff& backoff, Nanoseconds now, std::uint64_t wanted) {
    return backoff.is_over(now) ? backoff.affordable(now, wanted, kBudget) : 0;
}

TEST(GrowthBackoff, WaitsForQuiet) {
    GrowthBackoff backoff;
    EXPECT_EQ(allowance(backoff, seconds(5), 100), 0U) << "nothing is known to be quiet";
    backoff.quiet(seconds(5));
    EXPECT_EQ(allowance(backoff, milliseconds(5499), 100), 0U);
    EXPECT_EQ(allowance(backoff, milliseconds(5500), 100), 100U);
    backoff.pressure();
    EXPECT_EQ(allowance(backoff, seconds(60), 100), 0U);
}

TEST(GrowthBackoff, WaitsTwiceAsLongAfterAGrowthThatDidNotPay) {
    GrowthBackoff backoff;
    for (int i = 0; i < 10; ++i) {
        backoff.grew(seconds(i), 10, kBudget, 0.1);
        backoff.gained(0.09);
        backoff.pressure();
    }
    EXPECT_EQ(backoff.wait(), seconds(60));
    // One that paid halves it.
    backoff.grew(seconds(11), 10, kBudget, 0.1);
    backoff.gained(0.05);
    backoff.gained(0.06);
    backoff.pressure();
    EXPECT_EQ(backoff.wait(), seconds(30));
    for (int i = 0; i < 10; ++i) {
        backoff.grew(seconds(20 + i), 10, kBudget, 0.1);
        backoff.gained(1.0);
        backoff.pressure();
    }
    EXPECT_EQ(backoff.wait(), milliseconds(500));
}

TEST(GrowthBackoff, JudgesNothingWhereNothingGrew) {
    GrowthBackoff backoff;
    for (int i = 0; i < 10; ++i) {
        backoff.pressure();
    }
    EXPECT_EQ(backoff.wait(), milliseconds(500));
}

TEST(GrowthBackoff, KeepsUploadsToABudgetInTenSecondsAndTwoAtOnce) {
    GrowthBackoff backoff;
    backoff.quiet(seconds(0));
    std::uint64_t moved = 0;
    constexpr int kSeconds = 100;
    for (int ms = 500; ms <= kSeconds * 1000; ms += 100) {
        const std::uint64_t bytes = allowance(backoff, milliseconds(ms), kBudget);
        backoff.grew(milliseconds(ms), bytes, kBudget, 0.0);
        moved += bytes;
        EXPECT_LE(static_cast<double>(moved), kBudget * (2.0 + ms / 10000.0));
    }
    EXPECT_GE(static_cast<double>(moved), kBudget * (1.9 + kSeconds / 10.0) * 0.9);
}

}  // namespace
}  // namespace ballast::scheduler
