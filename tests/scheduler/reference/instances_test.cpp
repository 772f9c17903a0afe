// SPDX-License-Identifier: MIT
#include "tests/scheduler/reference/instances.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "scheduler/profile/bound.h"
#include "tests/support/sanitizer.h"

namespace ballast::test {
namespace {

using scheduler::GroupKind;
using scheduler::TensorGroup;

TEST(Instances, FollowFromTheSeed) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const Instance a = draw_instance(seed);
        const Instance b = draw_instance(seed);
        EXPECT_EQ(a.name, b.name);
        EXPECT_EQ(a.catalog.total_bytes(), b.catalog.total_bytes());
        EXPECT_EQ(a.hardware.dram_gbps, b.hardware.dram_gbps);
        EXPECT_NE(a.name, draw_instance(seed + 1).name);
        EXPECT_EQ(draw_small_instance(seed).name, draw_small_instance(seed).name);
    }
}

TEST(Instances, AreMachinesModelsAndBudgetsThatMayBe) {
    std::set<std::string> machines;
    int experts = 0;
    int shared = 0;
    int windows = 0;
    constexpr int kRounds = 500;
    for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
        const Instance instance = draw_instance(seed);
        const scheduler::HardwareProfile& h = instance.hardware;
        machines.insert(h.name);
        EXPECT_GE(h.dram_gbps, h.cpu_read_gbps) << instance.name;
        if (h.name == "random") {
            EXPECT_LE(h.dram_gbps, h.cpu_read_gbps + h.link_gbps) << instance.name;
        }
        EXPECT_GE(instance.budget_bytes, 1'500'000'000U);
        EXPECT_LE(instance.budget_bytes, 24'000'000'000U);
        EXPECT_GE(instance.context, 2048);
        EXPECT_LE(instance.context, 32768);
        EXPECT_GT(instance.prefill_tokens, 1);
        const double total = static_cast<double>(instance.catalog.total_bytes());
        EXPECT_GT(total, 1.9e9) << instance.name;
        EXPECT_LT(total, 130e9) << instance.name;
        EXPECT_EQ(instance.catalog.groups.back().kind, GroupKind::kHead);
        EXPECT_EQ(instance.catalog.groups.size(),
                  static_cast<std::size_t>(2 * instance.catalog.n_layers + 1));
        for (const TensorGroup& group : instance.catalog.groups) {
            EXPECT_GT(group.weight_bytes, 0U) << instance.name;
            EXPECT_GT(group.weights, 0U) << instance.name;
            EXPECT_LE(group.experts_used, group.parts);
        }
        const TensorGroup& second = instance.catalog.groups[3];
        experts += second.kind == GroupKind::kExperts ? 1 : 0;
        shared +=
            second.kind == GroupKind::kExperts && second.weight_bytes > second.expert_bytes ? 1 : 0;
        windows += instance.catalog.groups[0].window > 0 ? 1 : 0;
    }
    EXPECT_EQ(machines.size(), 18U);  // the shipped ones and two kinds of random ones
    EXPECT_GT(experts, kRounds / 3);
    EXPECT_LT(experts, kRounds * 2 / 3);
    EXPECT_GT(shared, kRounds / 20);
    EXPECT_LT(shared, experts);
    EXPECT_GT(windows, kRounds / 10);
}

TEST(Instances, GiveAFewDifferentWaysToPlaceEachGroup) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        const Instance instance = draw_small_instance(seed);
        EXPECT_GE(instance.catalog.groups.size(), 2U);
        EXPECT_LE(instance.catalog.groups.size(), 12U);
        Rng rng(seed);
        for (const auto& options : draw_options(rng, instance.catalog, 6)) {
            EXPECT_GE(options.size(), 2U);
            EXPECT_LE(options.size(), 6U);
            for (std::size_t i = 0; i < options.size(); ++i) {
                EXPECT_EQ(std::count(options.begin(), options.end(), options[i]), 1);
            }
        }
    }
}

/// Any division: what streams and what the CPU does of each group at random.
scheduler::GroupPlacement draw_placement(Rng& rng, const TensorGroup& group, bool may_stream) {
    const double cpu = 0.6 * rng.uniform();
    const double streamed = may_stream ? 0.4 * rng.uniform() : 0.0;
    const bool all_on_one_side = rng.below(8) == 0;
    if (group.kind == GroupKind::kExperts) {
        const int resident = static_cast<int>(cpu * group.parts);
        return {.resident = all_on_one_side ? group.parts : resident, .shared_on_device = true};
    }
    if (all_on_one_side) {
        return {};
    }
    const int streamed_parts = static_cast<int>(streamed * group.parts);
    const int cpu_parts = static_cast<int>(cpu * group.parts);
    return {.resident = group.parts - streamed_parts - cpu_parts, .streamed = streamed_parts};
}

TEST(Instances, TakeNoLessThanThePhysicalBoundHoweverPlaced) {
    for (std::uint64_t seed = 0; seed < (kSanitized ? 60U : 1000U); ++seed) {
        const Instance instance = seed % 2 == 0 ? draw_instance(seed) : draw_small_instance(seed);
        const scheduler::HardwareProfile& h = instance.hardware;
        Rng rng(seed);
        scheduler::Placement placement;
        scheduler::StepDemand demand;
        for (const TensorGroup& group : instance.catalog.groups) {
            placement.groups.push_back(draw_placement(rng, group, !h.unified_memory));
            for (const Outcome& o :
                 outcomes(h, instance.decode(), group, placement.groups.back())) {
                const double device_gb = o.device_seconds * h.device_read_gbps;
                demand.parts.push_back(
                    {.read_gb = o.probability * (device_gb + o.cpu_bytes / 1e9)});
                demand.resident_gb += o.probability * (device_gb - o.streamed_bytes / 1e9);
            }
        }
        // The lane may do better in one step at the expense of the next, hence a mean.
        const std::vector<double> steps =
            reference_steps_in_a_row(instance.catalog, h, placement, instance.decode(), 16);
        const double mean = std::accumulate(steps.begin() + 8, steps.end(), 0.0) / 8.0;
        EXPECT_GE(mean, scheduler::lower_bound_seconds(h, demand) * (1.0 - 1e-9)) << instance.name;
    }
}

}  // namespace
}  // namespace ballast::test
