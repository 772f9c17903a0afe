// SPDX-License-Identifier: MIT
#include "engine/base/units.h"

#include <limits>

#include <gtest/gtest.h>

namespace ballast {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Units, MultipliesOnlyWhatFits) {
    EXPECT_EQ(checked_multiply(1ULL << 31, 1ULL << 32), 1ULL << 63);
    EXPECT_EQ(checked_multiply(kMax, 1), kMax);
    EXPECT_EQ(checked_multiply(kMax, 0), 0U);
    EXPECT_FALSE(checked_multiply(1ULL << 32, 1ULL << 32));
    EXPECT_FALSE(checked_multiply(kMax, 2));
    EXPECT_FALSE(checked_multiply(3, 6148914691236517206));
}

TEST(Units, RoundsUpToAMultiple) {
    EXPECT_EQ(round_up(0, 32), 0U);
    EXPECT_EQ(round_up(1, 32), 32U);
    EXPECT_EQ(round_up(32, 32), 32U);
    EXPECT_EQ(round_up(33, 32), 64U);
    EXPECT_EQ(round_up(10, 3), 12U);
}

}  // namespace
}  // namespace ballast
