// SPDX-License-Identifier: MIT
#include "scheduler/profile/linear_program.h"

#include <cmath>

#include <gtest/gtest.h>

namespace ballast::scheduler {
namespace {

TEST(LinearProgram, FindsTheCorner) {
    // 3x + 5y, x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18: at (2, 6), from Hillier and Lieberman's textbook.
    EXPECT_NEAR(maximum({.gain = {3, 5}, .rows = {{1, 0}, {0, 2}, {3, 2}}, .limits = {4, 12, 18}}),
                36.0,
                1e-12);
}

TEST(LinearProgram, EndsWhereCornersCoincide) {
    // Beale's example, on which the largest-gain rule goes round for ever: 1/20.
    EXPECT_NEAR(maximum({.gain = {0.75, -150, 0.02, -6},
                         .rows = {{0.25, -60, -0.04, 9}, {0.5, -90, -0.02, 3}, {0, 0, 1, 0}},
                         .limits = {0, 0, 1}}),
                0.05,
                1e-12);
}

TEST(LinearProgram, SaysThatThereIsNoLimit) {
    EXPECT_TRUE(std::isinf(maximum({.gain = {1, 1}, .rows = {{1, -1}}, .limits = {1}})));
    EXPECT_EQ(maximum({.gain = {-1}, .rows = {{1}}, .limits = {5}}), 0.0);
}

}  // namespace
}  // namespace ballast::scheduler
