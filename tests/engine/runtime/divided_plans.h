// SPDX-License-Identifier: MIT
// Runs random placements and compares logits with those of the CPU alone: their bits where groups
// are whole, and how far they are from them where groups are divided.
#pragma once

#include <cmath>
#include <limits>

#include "tests/engine/runtime/script.h"

namespace ballast::test {

/// Groups divided at random: some on one side, some on both, some streamed, and of each kind of
/// step another share. Experts are whole.
inline std::shared_ptr<const scheduler::Plan> divided_plan(const scheduler::TensorCatalog& catalog,
                                                           std::uint64_t seed) {
    Rng rng(seed + 1000);
    scheduler::Plan plan{
        .version = 1, .reason = "of a test", .placement = scheduler::cpu_only(catalog)};
    const auto below = [&](int n) {
        return static_cast<int>(rng.below(static_cast<std::uint64_t>(n)));
    };
    // A third of the seeds leaves hardly a group whole, and a third hardly divides one.
    const double divided = seed % 3 == 0 ? 0.9 : seed % 3 == 1 ? 0.2 : 0.5;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const scheduler::TensorGroup& group = catalog.groups[i];
        scheduler::GroupPlacement& placed = plan.placement.groups[i];
        const bool whole = rng.uniform() < 0.5;
        if (group.kind == scheduler::GroupKind::kExperts) {
            const bool some = rng.uniform() < divided;
            placed = whole && !some ? scheduler::all_resident(group) : scheduler::GroupPlacement{};
            if (some) {
                placed.shared_on_device = true;
                placed.resident = below(group.parts + 1);
                placed.prefill_streamed = below(group.parts - placed.resident + 1);
            }
            continue;
        }
        if (rng.uniform() >= divided) {
            if (whole) {
                (rng.below(3) == 0 ? placed.streamed : placed.resident) = group.parts;
                placed.prefill_streamed = placed.streamed;
            }
            continue;
        }
        placed.resident = below(group.parts + 1);
        const int rest = group.parts - placed.resident;
        if (rng.below(2) == 0) {
            placed.streamed = below(rest + 1);
        }
        if (rng.below(2) == 0) {
            placed.prefill_streamed = below(rest + 1);
        }
    }
    return std::make_shared<const scheduler::Plan>(std::move(plan));
}

/// Root mean square of a − b; infinite if they are not of one size.
inline double rms_difference(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size() || a.empty()) {
        return std::numeric_limits<double>::infinity();
    }
    double sum = 0.0;
    for (std::size_t i = 0; i < b.size(); ++i) {
        const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        sum += difference * difference;
    }
    return std::sqrt(sum / static_cast<double>(a.size()));
}

/// Runs placements that divide groups, and returns the largest rms_difference() of logits to the
/// CPU alone.
inline double worst_divided_placement(const model::Model& model,
                                      std::uint64_t n_seeds,
                                      int n_decode_steps) {
    const auto expected =
        logits_of_script(model, {.threads = 1, .kv_type = "f32"}, Script::shape(), n_decode_steps);
    EXPECT_TRUE(expected.has_value());
    double worst = 0.0;
    for (std::uint64_t seed = 0; seed < n_seeds && expected; ++seed) {
        SCOPED_TRACE(seed);
        runtime::ComputeShape shape = Script::shape();
        shape.plan = divided_plan(model.catalog(), seed);
        // Small ones, so that a group crosses in several.
        shape.tile_bytes =
            seed % 2 == 0 ? scheduler::kTileBytesMax : model.catalog().total_bytes() / 100;
        auto compute = runtime::Compute::create(
            model,
            {.threads = 1, .kv_type = "f32", .device = "host", .vram_budget = 1ULL << 30U},
            shape);
        EXPECT_TRUE(compute.has_value()) << compute.error().message;
        if (!compute) {
            continue;
        }
        EXPECT_EQ((*compute)->residency().degraded, "");
        Script script(model, **compute, n_decode_steps);
        const Status status = script.run();
        EXPECT_TRUE(status.has_value()) << status.error().message;
        EXPECT_EQ(script.logits().size(), expected->size());
        const double found = rms_difference(script.logits(), *expected);
        EXPECT_FALSE(std::isnan(found));
        worst = std::max(worst, found);
    }
    return worst;
}

/// Runs the placements of these seeds and expects the bits of the CPU alone.
inline void expect_the_bits_of_the_cpu(const model::Model& model,
                                       std::uint64_t first_seed,
                                       std::uint64_t last_seed,
                                       int n_decode_steps) {
    const auto expected = logits_of_script(model, {.threads = 1}, Script::shape(), n_decode_steps);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    for (std::uint64_t seed = first_seed; seed <= last_seed; ++seed) {
        runtime::ComputeShape shape = Script::shape();
        shape.plan = random_plan(model.catalog(), seed);
        auto compute = runtime::Compute::create(
            model, {.threads = 2, .device = "host", .vram_budget = 1ULL << 30U}, shape);
        ASSERT_TRUE(compute.has_value()) << compute.error().message;
        const runtime::Residency& facts = (*compute)->residency();
        EXPECT_EQ(facts.degraded, "") << "seed " << seed;
        for (std::size_t i = 0; i < facts.groups.size(); ++i) {
            EXPECT_EQ(facts.groups[i].resident, shape.plan->placement.groups[i].resident)
                << "seed " << seed << " group " << i;
        }
        Script script(model, **compute, n_decode_steps);
        const Status status = script.run();
        ASSERT_TRUE(status.has_value()) << status.error().message;
        ASSERT_TRUE(same_bits(script.logits(), *expected)) << "seed " << seed;
    }
}

}  // namespace ballast::test
