// SPDX-License-Identifier: MIT
// How good plans are over many machines, models, budgets, contexts and mixes. tests/bench's
// plan_quality prints the figures.
#include <gtest/gtest.h>

#include "tests/scheduler/placement/plan_quality.h"
#include "tests/support/sanitizer.h"

namespace ballast::test {
namespace {

constexpr std::uint64_t kMixes = kSanitized ? 20 : 500;
constexpr std::uint64_t kDecodes = kSanitized ? 10 : 300;

/// Every promise holds for every plan; gives the gaps.
std::vector<double> gaps(std::uint64_t first, std::uint64_t count, bool decode_only) {
    std::vector<double> all;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        const Instance instance = draw_instance(seed);
        const PlanQuality plan = plan_quality(
            instance, decode_only ? decode_request_of(instance) : request_of(instance));
        for (const std::string& fault : plan.faults) {
            ADD_FAILURE() << plan.name << ": " << fault;
        }
        all.push_back(plan.gap());
    }
    return all;
}

TEST(PlannerQuality, IsNearTheBoundForMixesOfPrefillAndDecode) {
    const std::vector<double> all = gaps(0, kMixes, false);
    if (!kSanitized) {  // a few say nothing of a share
        EXPECT_LE(quantile(all, 0.5), 0.015);
        EXPECT_LE(quantile(all, 0.95), 0.08);
    }
}

// Seeds that were not looked at while the planner was made.
TEST(PlannerQuality, IsNearTheBoundForMixesThatItWasNotBuiltOn) {
    const std::vector<double> all = gaps(2500, kMixes, false);
    if (!kSanitized) {
        EXPECT_LE(quantile(all, 0.5), 0.015);
        EXPECT_LE(quantile(all, 0.95), 0.08);
    }
}

TEST(PlannerQuality, HoldsWhereRoundingGrowsFromTileToTile) {
    for (const std::uint64_t seed : {3346U, 5305U}) {
        gaps(seed, 1, true);
    }
}

TEST(PlannerQuality, IsNearTheBoundForDecodeAlone) {
    const std::vector<double> all = gaps(0, kDecodes, true);
    if (!kSanitized) {
        EXPECT_LE(quantile(all, 0.5), 0.01);
        EXPECT_LE(quantile(all, 0.95), 0.06);
    }
}

TEST(PlannerQuality, CountsQuantilesFromTheSmallest) {
    EXPECT_EQ(quantile({3, 1, 2, 4}, 0.5), 2);
    EXPECT_EQ(quantile({3, 1, 2, 4}, 0.95), 4);
    EXPECT_EQ(quantile({7}, 0.0), 7);
}

}  // namespace
}  // namespace ballast::test
