// SPDX-License-Identifier: MIT
#include "engine/runtime/expert_counts.h"

#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "engine/runtime/expert_views.h"

namespace ballast::runtime {
namespace {

TEST(ExpertCounts, SayHowUnevenlyExpertsAreUsed) {
    ExpertCounts counts(3, 20);
    EXPECT_EQ(counts.summary().hottest_50, 0.0) << "nothing was used";
    std::vector<std::uint32_t> even(20, 3);
    counts.count(0, even, 15);
    EXPECT_NEAR(counts.summary(0, 1).hottest_10, 0.10, 1e-12);
    EXPECT_NEAR(counts.summary(0, 1).hottest_25, 0.25, 1e-12);
    EXPECT_NEAR(counts.summary(0, 1).hottest_50, 0.50, 1e-12);
    std::vector<std::uint32_t> uneven(20, 0);
    uneven[7] = 45;
    uneven[3] = 15;
    counts.count(2, uneven, 15);
    EXPECT_NEAR(counts.summary(2, 3).hottest_10, 1.0, 1e-12) << "both of them";
    // Each layer's own: 6 + 60, 15 + 60 and 30 + 60 of 120.
    EXPECT_NEAR(counts.summary().hottest_10, 0.55, 1e-12);
    EXPECT_NEAR(counts.summary().hottest_25, 0.625, 1e-12);
    EXPECT_NEAR(counts.summary().hottest_50, 0.75, 1e-12);
    EXPECT_NEAR(counts.uses(2, 7), 45.0, 1e-9);
}

TEST(ExpertCounts, RoundUpToWholeExperts) {
    ExpertCounts counts(1, 4);
    counts.count(0, std::array<std::uint32_t, 4>{1, 2, 3, 4}, 10);
    EXPECT_NEAR(counts.summary().hottest_10, 0.4, 1e-12);
    EXPECT_NEAR(counts.summary().hottest_25, 0.4, 1e-12);
    EXPECT_NEAR(counts.summary().hottest_50, 0.7, 1e-12);
}

TEST(ExpertCounts, FadeByHalfInEachHalfLife) {
    ExpertCounts counts(1, 2, 50.0);
    counts.count(0, std::array<std::uint32_t, 2>{8, 0}, 8);
    counts.count(0, std::array<std::uint32_t, 2>{0, 2}, 100);
    EXPECT_NEAR(counts.uses(0, 0), 2.0, 1e-12);
    EXPECT_NEAR(counts.summary().hottest_50, 0.5, 1e-12);
    for (int i = 0; i < 10000; ++i) {
        counts.count(0, std::array<std::uint32_t, 2>{0, 1}, 1);
    }
    // Σ 2^(−i/50) over all i ≥ 0.
    EXPECT_NEAR(counts.uses(0, 1), 1.0 / (1.0 - std::exp2(-1.0 / 50.0)), 1e-6);
    EXPECT_LT(counts.uses(0, 0), 1e-50);
    EXPECT_EQ(counts.misses(), 10010U) << "these do not fade";
}

TEST(ExpertCounts, TellHitsFromMissesByTheSlotsOfTheStep) {
    ExpertCounts counts(2, 4);
    counts.count(0, std::array<std::uint32_t, 4>{1, 2, 3, 4}, 0, std::array{-1, 1, -1, 0});
    counts.count(1, std::array<std::uint32_t, 4>{5, 0, 0, 0}, 0);
    EXPECT_EQ(counts.hits(), 6U);
    EXPECT_EQ(counts.misses(), 9U);
    EXPECT_NEAR(counts.summary(0, 1).hit_rate, 0.6, 1e-12);
    EXPECT_NEAR(counts.summary().hit_rate, 0.4, 1e-12);
}

TEST(ExpertViews, GiveEachExpertToOneSide) {
    ExpertViews views(2, 4);
    EXPECT_EQ(views.n_of(0, DeviceId::kCpu), 4);
    EXPECT_EQ(views.n_of(0, DeviceId::kDevice), 0);
    views.set(1, std::array{-1, 1, -1, 0});
    EXPECT_EQ(views.n_of(1, DeviceId::kCpu), 2);
    EXPECT_EQ(views.n_of(1, DeviceId::kDevice), 2);
    const auto cpu = views.of(DeviceId::kCpu);
    const auto device = views.of(DeviceId::kDevice);
    ASSERT_EQ(cpu.size(), 2U);
    ASSERT_EQ(device.size(), 2U);
    for (int expert = 0; expert < 4; ++expert) {
        EXPECT_EQ(cpu[0].of(expert), expert);
        EXPECT_EQ(device[0].of(expert), -1);
        EXPECT_EQ(cpu[1].of(expert) >= 0, device[1].of(expert) < 0) << expert;
    }
    EXPECT_EQ(device[1].of(3), 0);
    EXPECT_EQ(cpu[1].of(2), 2) << "the CPU's units hold all experts";
    views.set(1, std::array{0, 1, 2, 3});
    EXPECT_EQ(views.n_of(1, DeviceId::kCpu), 0);
}

}  // namespace
}  // namespace ballast::runtime
