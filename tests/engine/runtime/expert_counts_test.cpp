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
    // Group 3: four experts, of which the first two parts are slots, the third crosses, and the
    // CPU has the last. Group 5 is the CPU's.
    const std::array device = {ExpertShare{{0, 2}, 4, 3}, ExpertShare{{2, 1}, 4, 3}};
    const std::array cpu = {ExpertShare{{3, 1}, 4, 3}, ExpertShare{{0, 2}, 2, 5}};
    ExpertViews views(cpu, device);
    const auto slots = [&](DeviceId side, int share) {
        std::vector<int> found;
        const std::span<const backend::ExpertSlices> shares = views.of(side);
        for (int expert = 0; expert < (side == DeviceId::kCpu && share == 1 ? 2 : 4); ++expert) {
            found.push_back(shares[static_cast<std::size_t>(share)].of(expert));
        }
        return found;
    };
    EXPECT_EQ(slots(DeviceId::kDevice, 0), (std::vector<int>{0, 1, -1, -1}));
    EXPECT_EQ(slots(DeviceId::kDevice, 1), (std::vector<int>{-1, -1, 0, -1}));
    EXPECT_EQ(slots(DeviceId::kCpu, 0), (std::vector<int>{-1, -1, -1, 3}));
    EXPECT_EQ(slots(DeviceId::kCpu, 1), (std::vector<int>{0, 1}));
    views.set(3, std::array{3, 0, 2, 1});
    EXPECT_EQ(slots(DeviceId::kDevice, 0), (std::vector<int>{1, -1, -1, 0}));
    EXPECT_EQ(slots(DeviceId::kDevice, 1), (std::vector<int>{-1, -1, 0, -1}));
    EXPECT_EQ(slots(DeviceId::kCpu, 0), (std::vector<int>{-1, 1, -1, -1}))
        << "the CPU's units hold all experts";
    views.set(3, std::array{3, -1, 0, 1});
    EXPECT_EQ(slots(DeviceId::kDevice, 0), (std::vector<int>{-1, -1, -1, 0}));
    EXPECT_EQ(slots(DeviceId::kDevice, 1), (std::vector<int>{0, -1, -1, -1}));
    EXPECT_EQ(slots(DeviceId::kCpu, 0), (std::vector<int>{-1, 1, 2, -1}))
        << "what is no part of the device's while a slot is empty";
    EXPECT_EQ(slots(DeviceId::kCpu, 1), (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace ballast::runtime
