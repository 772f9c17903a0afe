// SPDX-License-Identifier: MIT
// The planner at its edges.
#include "scheduler/placement/planner.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/scheduler/placement/plan_quality.h"

namespace ballast::test {
namespace {

using scheduler::GroupKind;
using scheduler::GroupPlacement;
using scheduler::HardwareProfile;
using scheduler::PlanRequest;
using scheduler::PlanResult;
using scheduler::TensorCatalog;

void expect_sound(const Instance& instance, const PlanRequest& request, const std::string& what) {
    const PlanQuality quality = plan_quality(instance, request);
    for (const std::string& fault : quality.faults) {
        ADD_FAILURE() << instance.name << ", " << what << ": " << fault;
    }
    EXPECT_TRUE(std::isfinite(quality.value)) << instance.name << ", " << what;
}

TEST(Planner, KeepsItsPromisesAtEveryEdge) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        const Instance drawn = draw_small_instance(seed, {.groups_min = 1, .groups_max = 7});
        const auto with = [&](const char* what, const auto& change) {
            Instance instance = drawn;
            change(instance);
            expect_sound(instance, request_of(instance), what);
            expect_sound(instance, decode_request_of(instance), what);
            PlanRequest prefill_only = request_of(instance);
            prefill_only.decode_weight = 0.0;
            expect_sound(instance, prefill_only, what);
        };
        with("as drawn", [](Instance&) {});
        with("no hop", [](Instance& i) { i.hardware.hop_us = 0.0; });
        with("long hops", [](Instance& i) { i.hardware.hop_us = 1e5; });
        with("no memory", [](Instance& i) { i.budget_bytes = 0; });
        with("a byte", [](Instance& i) { i.budget_bytes = 1; });
        with("a petabyte", [](Instance& i) { i.budget_bytes = 1ULL << 50U; });
        with("one group", [](Instance& i) { i.catalog.groups.resize(1); });
        with("no reserve", [](Instance& i) {
            i.context = 0;
            i.depth = 0;
        });
        with("experts of one", [](Instance& i) {
            for (scheduler::TensorGroup& group : i.catalog.groups) {
                if (group.kind == GroupKind::kExperts) {
                    group.parts = 1;
                    group.experts_used = 1;
                }
            }
        });
        with("a slow link",
             [](Instance& i) { i.hardware.link_gbps = i.hardware.unified_memory ? 0.0 : 1e-3; });
    }
}

TEST(Planner, LeavesAllToTheCpuWithoutMemory) {
    const Instance drawn = draw_small_instance(4, {.unified = false});
    Instance instance = drawn;
    instance.budget_bytes = 0;
    PlanRequest request = decode_request_of(instance);
    EXPECT_EQ(make_plan(request).plan.placement, cpu_only(instance.catalog));
    // A bound that lets pieces of any size stream does not know that the smallest needs a ring.
    request.ladder.streams = false;
    const PlanResult result = make_plan(request);
    EXPECT_EQ(result.plan.placement, cpu_only(instance.catalog));
    EXPECT_NEAR(result.gap, 0.0, 1e-6);
}

TEST(Planner, PutsAllOnADeviceThatIsMuchFaster) {
    Instance instance = draw_small_instance(4, {.experts = false, .unified = false});
    instance.budget_bytes = 1ULL << 50U;
    instance.hardware.device_read_gbps = 10'000;
    instance.hardware.device_tflops = 10'000;
    const PlanResult result = make_plan(decode_request_of(instance));
    for (std::size_t i = 0; i < instance.catalog.groups.size(); ++i) {
        EXPECT_EQ(result.plan.placement.groups[i].resident, instance.catalog.groups[i].parts);
    }
    EXPECT_NEAR(result.gap, 0.0, 1e-6);
}

TEST(Planner, IsAFunctionOfItsRequest) {
    const Instance instance = draw_instance(7);
    const PlanRequest request = request_of(instance);
    const PlanResult once = make_plan(request);
    const PlanResult again = make_plan(request);
    EXPECT_EQ(once.plan.placement, again.plan.placement);
    EXPECT_EQ(once.gap, again.gap);
}

TEST(Planner, TakesAPolicyThatIsAlmostAsFastIfToldTo) {
    // 8 GB, of which all fit: the CPU's help is worth a few per cent.
    const Instance instance = draw_instance(150);
    PlanRequest request = decode_request_of(instance);
    const PlanResult fastest = make_plan(request);
    double simplest = std::numeric_limits<double>::infinity();
    for (const scheduler::PolicyForecast& policy : fastest.policies) {
        simplest = policy.best ? std::min(simplest, policy.best->decode_seconds) : simplest;
    }
    ASSERT_GT(simplest, fastest.plan.decode_seconds);
    const double apart = simplest / fastest.plan.decode_seconds - 1.0;
    request.simple_within = apart * 1.01;
    EXPECT_EQ(make_plan(request).plan.decode_seconds, simplest);
    request.simple_within = apart * 0.99;
    EXPECT_EQ(make_plan(request).plan.decode_seconds, fastest.plan.decode_seconds);
}

TEST(Planner, FindsTheSamePlanAgainFromItsPrices) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Instance instance = draw_instance(seed);
        const PlanRequest request = decode_request_of(instance);
        const PlanResult cold = make_plan(request);
        const PlanResult warm = make_plan(request, cold.prices);
        EXPECT_NEAR(warm.plan.decode_seconds / cold.plan.decode_seconds, 1.0, 0.03)
            << instance.name;
        EXPECT_NEAR(warm.decode_bound_seconds / cold.decode_bound_seconds, 1.0, 0.01)
            << instance.name;
    }
}

}  // namespace
}  // namespace ballast::test
