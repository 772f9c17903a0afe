// SPDX-License-Identifier: MIT
// The two searches against each other, and what they say against the reference step.
#include "tests/scheduler/reference/exact_search.h"

#include <gtest/gtest.h>

#include "tests/scheduler/reference/instances.h"

namespace ballast::test {
namespace {

ExactProblem problem_of(const Instance& instance, Rng& rng) {
    return {.catalog = instance.catalog,
            .hardware = instance.hardware,
            .budget_bytes = instance.budget_bytes,
            .reserve = instance.reserve(),
            .options = draw_options(rng, instance.catalog, 6),
            .step = instance.decode()};
}

/// The result is a placement that takes the time and the bytes that it says.
void expect_true(const ExactProblem& problem, const ExactResult& result, const std::string& name) {
    EXPECT_NEAR(
        reference_step_seconds(problem.catalog, problem.hardware, result.placement, problem.step),
        result.seconds,
        1e-12)
        << name;
    EXPECT_NEAR(reference_device_bytes(problem.catalog, result.placement, problem.reserve),
                result.bytes,
                1.0)
        << name;
    EXPECT_LE(result.bytes, static_cast<double>(problem.budget_bytes)) << name;
}

TEST(ExactSearch, FindsTheBestOfFourByHand) {
    // 10 MB, then 1000 MB; 10 ms or 0.1 ms for the first. Both on the device is best, but 1005 MB
    // hold only the second: CPU to 1.0, device from 1.1 to 11.1, back at 11.2.
    scheduler::TensorCatalog catalog;
    catalog.groups = {{.weight_bytes = 10'000'000}, {.weight_bytes = 1'000'000'000}};
    const scheduler::HardwareProfile h = {.device_read_gbps = 100,
                                          .cpu_read_gbps = 10,
                                          .link_gbps = 5,
                                          .dram_gbps = 12,
                                          .hop_us = 100,
                                          .device_tflops = 10,
                                          .cpu_tflops = 1};
    ExactProblem problem = {.catalog = catalog,
                            .hardware = h,
                            .budget_bytes = 1'005'000'000,
                            .options = {{{}, {.resident = 1}}, {{}, {.resident = 1}}}};
    for (const auto& search : {search_all, search_labels}) {
        problem.budget_bytes = 1'005'000'000;
        ExactResult result = search(problem);
        ASSERT_TRUE(result.found);
        EXPECT_NEAR(result.seconds, 0.0112, 1e-12);
        EXPECT_EQ(result.placement.groups[0].resident, 0);
        EXPECT_EQ(result.placement.groups[1].resident, 1);
        problem.budget_bytes = 1'010'000'000;
        EXPECT_NEAR(search(problem).seconds, 0.0103, 1e-12);
        problem.budget_bytes = 0;
        EXPECT_NEAR(search(problem).seconds, 0.101, 1e-12);
    }
}

TEST(ExactSearch, SaysThatNothingFits) {
    scheduler::TensorCatalog catalog;
    catalog.groups = {{.weight_bytes = 1000}};
    const auto hardware = draw_instance(1).hardware;
    const ExactProblem problem = {.catalog = catalog,
                                  .hardware = hardware,
                                  .budget_bytes = 999,
                                  .options = {{{.resident = 1}}}};
    EXPECT_FALSE(search_all(problem).found);
    EXPECT_FALSE(search_labels(problem).found);
}

TEST(ExactSearch, FindsTheSameByLabelsAsByTryingAll) {
    constexpr int kRounds = 3000;
    int blocking = 0;
    int unified = 0;
    int experts = 0;
    for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
        const Instance instance = draw_small_instance(seed, {.groups_min = 2, .groups_max = 7});
        Rng rng(seed);
        const ExactProblem problem = problem_of(instance, rng);
        const ExactResult all = search_all(problem);
        const ExactResult labels = search_labels(problem);
        ASSERT_EQ(all.found, labels.found) << instance.name;
        ASSERT_TRUE(all.found) << instance.name;
        EXPECT_NEAR(all.seconds, labels.seconds, 1e-12) << instance.name;
        expect_true(problem, all, instance.name);
        expect_true(problem, labels, instance.name);
        blocking += instance.blocking_hops ? 1 : 0;
        unified += instance.hardware.unified_memory ? 1 : 0;
        experts += instance.catalog.has_experts() ? 1 : 0;
    }
    // Each kind was among them.
    EXPECT_GT(blocking, kRounds / 10);
    EXPECT_GT(unified, kRounds / 10);
    EXPECT_GT(experts, kRounds / 10);
}

TEST(ExactSearch, GoesThroughChainsOfTwelve) {
    for (std::uint64_t seed = 1000; seed < 1040; ++seed) {
        const Instance instance = draw_small_instance(seed, {.groups_min = 12, .groups_max = 12});
        Rng rng(seed);
        const ExactProblem problem = problem_of(instance, rng);
        const ExactResult best = search_labels(problem);
        ASSERT_TRUE(best.found) << instance.name;
        expect_true(problem, best, instance.name);
        // No single change of one group makes it faster.
        for (std::size_t i = 0; i < problem.options.size(); ++i) {
            for (const scheduler::GroupPlacement& other : problem.options[i]) {
                scheduler::Placement changed = best.placement;
                changed.groups[i] = other;
                if (reference_device_bytes(problem.catalog, changed, problem.reserve) <=
                    static_cast<double>(problem.budget_bytes)) {
                    EXPECT_GE(reference_step_seconds(
                                  problem.catalog, problem.hardware, changed, problem.step),
                              best.seconds - 1e-12)
                        << instance.name;
                }
            }
        }
    }
}

}  // namespace
}  // namespace ballast::test
