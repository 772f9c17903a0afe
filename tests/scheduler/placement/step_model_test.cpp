// SPDX-License-Identifier: MIT
// The planner's model of a step against the reference, and by hand at its edges.
#include "scheduler/placement/step_model.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/scheduler/reference/instances.h"
#include "tests/support/sanitizer.h"

namespace ballast::scheduler {
namespace {

int below(Rng& rng, int n) {
    return static_cast<int>(rng.below(static_cast<std::uint64_t>(n)));
}

/// Any division that the rules of placements allow.
Placement draw_placement(Rng& rng, const TensorCatalog& catalog, bool unified) {
    Placement placement;
    for (const TensorGroup& group : catalog.groups) {
        GroupPlacement placed;
        const bool experts = group.kind == GroupKind::kExperts;
        placed.shared_on_device = experts && below(rng, 3) > 0;
        if (!experts || placed.shared_on_device) {
            placed.resident = below(rng, 3) == 0 ? group.parts : below(rng, group.parts + 1);
        }
        const int rest = group.parts - placed.resident;
        placed.streamed = experts || unified || below(rng, 2) == 0 ? 0 : below(rng, rest + 1);
        placed.prefill_streamed = below(rng, 2) == 0 ? 0 : below(rng, rest + 1);
        placement.groups.push_back(placed);
    }
    return placement;
}

StepModel model_of(const test::Instance& instance, const StepShape& shape) {
    return StepModel(instance.catalog,
                     CostModel(instance.hardware),
                     {.shape = shape,
                      .hops = instance.blocking_hops ? HopModel::kBlocking : HopModel::kOverlapped,
                      .locality = static_cast<Locality>(instance.locality)});
}

TEST(StepModel, TakesAsLongAsTheReferenceForAnyPlacement) {
    constexpr std::uint64_t kRounds = test::kSanitized ? 200 : 3000;
    for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
        test::Instance instance = test::draw_small_instance(seed, {.groups_min = 1});
        if (seed % 7 == 0) {
            instance.hardware.hop_us = 0.0;
        }
        const StepModel decode = model_of(instance, {.tokens = 1, .depth = instance.depth});
        const StepModel prefill = model_of(instance, {.tokens = instance.prefill_tokens});
        Rng rng(seed);
        const Placement placement =
            draw_placement(rng, instance.catalog, instance.hardware.unified_memory);
        const auto reference = [&](const test::ReferenceStep& step) {
            return test::reference_step_seconds(
                instance.catalog, instance.hardware, placement, step);
        };
        const double expected = reference(instance.decode());
        EXPECT_NEAR(decode.seconds(placement), expected, 1e-9 * expected) << instance.name;
        const double expected_prefill = reference(instance.prefill());
        EXPECT_NEAR(prefill.seconds(placement), expected_prefill, 1e-9 * expected_prefill)
            << instance.name;
    }
}

const HardwareProfile kMachine = {.device_read_gbps = 100,
                                  .cpu_read_gbps = 10,
                                  .link_gbps = 5,
                                  .dram_gbps = 12,
                                  .hop_us = 100,
                                  .device_tflops = 10,
                                  .cpu_tflops = 1};

/// 100 MB: 1 ms on the device, 10 ms on the CPU.
TensorCatalog one_group(int parts = 10) {
    TensorCatalog catalog;
    catalog.groups = {{.parts = parts, .weight_bytes = 100'000'000}};
    return catalog;
}

TEST(StepModel, MovesTheResidualAsTheTableSays) {
    const TensorCatalog catalog = one_group();
    const auto after = [&](HopModel hops, const GroupPlacement& placed, ChainState before) {
        const StepModel model(catalog, CostModel(kMachine), {.hops = hops});
        return model.advance(model.cost(catalog.groups[0], placed), before);
    };
    const auto expect = [](ChainState found, double device_ms, double cpu_ms) {
        EXPECT_NEAR(1e3 * found.device, device_ms, 1e-9);
        EXPECT_NEAR(1e3 * found.cpu, cpu_ms, 1e-9);
    };
    const ChainState device_has_it = {.device = 0.0, .cpu = 0.1e-3};
    const ChainState cpu_has_it = {.device = 0.1e-3, .cpu = 0.0};
    for (const HopModel hops : {HopModel::kOverlapped, HopModel::kBlocking}) {
        expect(after(hops, {.resident = 10}, device_has_it), 1.0, 1.1);
        expect(after(hops, {.resident = 10}, cpu_has_it), 1.1, 1.2);
        expect(after(hops, {}, device_has_it), 10.2, 10.1);
    }
    // Nine parts take 0.9 ms on the device, the other 1.0 ms on the CPU.
    expect(after(HopModel::kOverlapped, {.resident = 9}, device_has_it), 1.2, 1.1);
    expect(after(HopModel::kOverlapped, {.resident = 9}, cpu_has_it), 1.1, 1.1);
    expect(after(HopModel::kBlocking, {.resident = 9}, device_has_it), 1.2, 1.3);
    expect(after(HopModel::kBlocking, {.resident = 9}, cpu_has_it), 1.3, 1.2);
}

TEST(StepModel, SlowsBothSidesOnlyWhileBothReadOneMemory) {
    HardwareProfile unified = kMachine;
    unified.unified_memory = true;
    unified.link_gbps = 0;
    unified.dram_gbps = 100;  // of 110: each at 10/11 of its pace
    unified.hop_us = 0;
    const TensorCatalog catalog = one_group();
    const StepModel model(catalog, CostModel(unified), {});
    // 0.9 ms beside 1.0 ms: until 0.99 together, and the last 0.1 ms alone.
    EXPECT_NEAR(model.seconds(Placement{{{.resident = 9}}}), 1.09e-3, 1e-12);
    EXPECT_NEAR(model.seconds(Placement{{{.resident = 10}}}), 1e-3, 1e-12);
}

TEST(StepModel, CopiesInTurnAreNeverFaster) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const test::Instance instance =
            test::draw_small_instance(seed, {.groups_min = 2, .unified = false});
        Rng rng(seed);
        const Placement placement = draw_placement(rng, instance.catalog, false);
        StepOptions options = {.shape = {.tokens = 1, .depth = instance.depth}};
        const double ahead =
            StepModel(instance.catalog, CostModel(instance.hardware), options).seconds(placement);
        options.serial_copies = true;
        EXPECT_GE(
            StepModel(instance.catalog, CostModel(instance.hardware), options).seconds(placement),
            ahead * (1.0 - 1e-9))
            << instance.name;
    }
}

TEST(StepModel, TakesFewExpertsAsTheyAre) {
    // One expert, always used: resident it is a dense group, elsewhere the CPU has it.
    TensorCatalog catalog;
    catalog.groups = {{.kind = GroupKind::kExperts,
                       .parts = 1,
                       .weight_bytes = 10'000'000,
                       .experts_used = 1,
                       .expert_bytes = 90'000'000}};
    const StepModel model(catalog, CostModel(kMachine), {});
    EXPECT_NEAR(model.seconds(cpu_only(catalog)), 10e-3, 1e-12);
    EXPECT_NEAR(model.seconds(Placement{{{.resident = 1, .shared_on_device = true}}}),
                0.1e-3 + 1e-3 + 0.1e-3,
                1e-12);
    EXPECT_NEAR(model.seconds(Placement{{{.shared_on_device = true}}}), 9e-3, 1e-12);
    // In prefill it is met once, whatever the number of tokens.
    const StepModel prefill(catalog, CostModel(kMachine), {.shape = {.tokens = 512}});
    EXPECT_TRUE(std::isfinite(prefill.seconds(Placement{{{.prefill_streamed = 1}}})));
}

TEST(StepModel, HopsTakeTheResidualAlongInPrefill) {
    TensorCatalog catalog = one_group();
    catalog.width = 5000;
    const auto hop = [&](int tokens) {
        return StepModel(catalog, CostModel(kMachine), {.shape = {.tokens = tokens}}).hop_seconds();
    };
    EXPECT_NEAR(hop(1), 0.1e-3, 1e-12);
    EXPECT_NEAR(hop(1000), 0.1e-3 + 2e-3, 1e-12);  // 10 MB at 5 GB/s
}

}  // namespace
}  // namespace ballast::scheduler
