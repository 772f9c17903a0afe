// SPDX-License-Identifier: MIT
// The values are of an implementation in Python that also gives the published sequence of
// xoshiro256** from the state 1, 2, 3, 4 (11520, 0, 1509978240, 1215971899390074240).
#include "engine/base/rng.h"

#include <array>

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(Rng, GivesTheKnownSequenceOfASeed) {
    Rng zero(0);
    EXPECT_EQ(zero.next(), 0x99ec5f36cb75f2b4ULL);
    EXPECT_EQ(zero.next(), 0xbf6e1f784956452aULL);
    EXPECT_EQ(zero.next(), 0x1a5f849d4933e6e0ULL);
    Rng other(12345);
    EXPECT_EQ(other.next(), 0xbe6a36374160d49bULL);
    EXPECT_EQ(other.next(), 0x214aaa0637a688c6ULL);
    EXPECT_EQ(other.next(), 0xf69d16de9954d388ULL);
}

TEST(Rng, IsUniformInItsRanges) {
    Rng rng(7);
    std::array<int, 10> counts{};
    double sum = 0;
    constexpr int kDraws = 100000;
    for (int i = 0; i < kDraws; ++i) {
        const double x = rng.uniform();
        ASSERT_GE(x, 0.0);
        ASSERT_LT(x, 1.0);
        sum += x;
        ++counts.at(rng.below(10));
    }
    // Six standard deviations: 6 * sqrt(1/12 / n) and 6 * sqrt(n * 0.1 * 0.9).
    EXPECT_NEAR(sum / kDraws, 0.5, 0.0055);
    for (const int count : counts) {
        EXPECT_NEAR(count, kDraws / 10, 570);
    }
}

}  // namespace
}  // namespace ballast
