// SPDX-License-Identifier: MIT
// The divisions a planner may choose among, and the bound over them.
#include "scheduler/placement/option_table.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "scheduler/placement/layer_mix.h"
#include "scheduler/placement/prefill_streams.h"
#include "scheduler/placement/price_dual.h"
#include "tests/scheduler/reference/exact_search.h"
#include "tests/scheduler/reference/instances.h"
#include "tests/support/sanitizer.h"

namespace ballast::scheduler {
namespace {

StepModel model_of(const test::Instance& instance, bool prefill = false) {
    return StepModel(instance.catalog,
                     CostModel(instance.hardware),
                     {.shape = {.tokens = prefill ? instance.prefill_tokens : 1,
                                .depth = prefill ? 0 : instance.depth},
                      .hops = instance.blocking_hops ? HopModel::kBlocking : HopModel::kOverlapped,
                      .locality = static_cast<Locality>(instance.locality)});
}

test::Instance draw(std::uint64_t seed) {
    test::Instance instance = test::draw_small_instance(seed, {.groups_min = 1});
    if (seed % 5 == 0) {
        instance.hardware.hop_us = 0.0;
    }
    return instance;
}

TEST(OptionTable, HasBothSidesWholeForEveryType) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const test::Instance instance = draw(seed);
        for (const bool prefill : {false, true}) {
            const StepModel model = model_of(instance, prefill);
            for (const Ladder& ladder : {Ladder{}, Ladder{.splits = false, .streams = false}}) {
                const OptionTable table(model, instance.reserve(), ladder);
                ASSERT_EQ(table.n_groups(), instance.catalog.groups.size());
                for (std::size_t i = 0; i < table.n_groups(); ++i) {
                    const TensorGroup& group = instance.catalog.groups[i];
                    EXPECT_GE(table.find(table.type_of(i), {}), 0) << instance.name;
                    EXPECT_GE(table.find(table.type_of(i), all_resident(group)), 0)
                        << instance.name;
                }
            }
        }
    }
}

TEST(OptionTable, KeepsTheCpuWholeWhereGroupsOfOneKindHaveOtherParts) {
    // A group of two parts comes first: shares that are one for it are many for the second.
    TensorCatalog catalog;
    catalog.groups = {{.layer = 0, .parts = 2, .weight_bytes = 2000},
                      {.layer = 1, .parts = 64, .weight_bytes = 64'000}};
    const test::Instance machine = test::draw_instance(1);
    const StepModel model(catalog, CostModel(machine.hardware), {});
    const OptionTable table(model, {}, {.streams = false});
    for (const int on_device : {0, 1, 2}) {
        EXPECT_GE(table.find(0, {.resident = on_device}), 0) << on_device;
    }
    for (const int on_device : {0, 4, 32, 60, 63, 64}) {
        EXPECT_GE(table.find(1, {.resident = on_device}), 0) << on_device;
    }
}

TEST(OptionTable, SaysWhatEachDivisionTakes) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        const test::Instance instance = draw(seed);
        const StepModel model = model_of(instance);
        const OptionTable table(model, instance.reserve(), {});
        for (std::size_t type = 0; type < table.n_types(); ++type) {
            const TensorGroup& group = table.example(static_cast<int>(type));
            for (const Option& option : table.options(static_cast<int>(type))) {
                const GroupPlacement& placed = option.placed;
                EXPECT_TRUE(placed.resident >= 0 && placed.streamed >= 0 &&
                            placed.resident + placed.streamed <= group.parts)
                    << instance.name;
                const GroupBytes bytes = group_bytes(group, placed, instance.reserve());
                EXPECT_EQ(option.memory, static_cast<double>(bytes.weights + bytes.kv));
                EXPECT_EQ(option.piece, static_cast<double>(bytes.piece));
                EXPECT_TRUE(!instance.hardware.unified_memory || option.piece == 0.0);
                EXPECT_GE(option.link_seconds, 0.0);
                for (std::size_t lead = 0; lead < kLeads; ++lead) {
                    EXPECT_TRUE(std::isfinite(option.delta[lead]) && option.next[lead] < kLeads)
                        << instance.name;
                }
            }
        }
    }
}

TEST(OptionTable, DividesNothingThatTheLadderForbids) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const test::Instance instance = draw(seed);
        const StepModel model = model_of(instance);
        const OptionTable table(model, instance.reserve(), {.splits = false, .streams = false});
        for (std::size_t type = 0; type < table.n_types(); ++type) {
            const TensorGroup& group = table.example(static_cast<int>(type));
            for (const Option& option : table.options(static_cast<int>(type))) {
                EXPECT_TRUE(option.placed.resident == 0 || option.placed.resident == group.parts);
                EXPECT_EQ(option.placed.streamed, 0);
            }
        }
    }
}

TEST(OptionTable, HasWhateverAPlanDoesInPrefill) {
    int n_streamed = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const test::Instance instance = draw(seed);
        const StepModel decode_model = model_of(instance);
        const StepModel prefill_model = model_of(instance, true);
        const OptionTable decode(decode_model, instance.reserve(), {});
        const OptionTable prefill(prefill_model, instance.reserve(), {});
        Rng rng(seed);
        Placement placement;
        for (std::size_t i = 0; i < decode.n_groups(); ++i) {
            const auto options = decode.options(decode.type_of(i));
            placement.groups.push_back(options[rng.below(options.size())].placed);
        }
        const auto need = static_cast<double>(
            device_bytes(instance.catalog, placement, instance.reserve()).total());
        const PrefillChoice choice = choose_prefill_streams(
            prefill_model, placement, instance.reserve(), {}, need * (1.0 + 0.5 * rng.uniform()));
        for (std::size_t i = 0; i < choice.placement.groups.size(); ++i) {
            GroupPlacement placed = choice.placement.groups[i];
            placed.streamed = 0;  // in decode
            EXPECT_GE(prefill.find(prefill.type_of(i), placed), 0) << instance.name;
            n_streamed += placed.prefill_streamed > 0 ? 1 : 0;
        }
    }
    EXPECT_GT(n_streamed, 100);
}

/// The least decode time of random choices that fit.
double best_of_random(const test::Instance& instance, const OptionTable& table, int tries) {
    Rng rng(1);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < tries; ++i) {
        Placement placement;
        Choice choice;
        const double on_cpu = rng.uniform();  // so that small budgets are met as well
        for (std::size_t group = 0; group < table.n_groups(); ++group) {
            const auto options = table.options(table.type_of(group));
            const int drawn = rng.uniform() < on_cpu ? table.find(table.type_of(group), {})
                                                     : static_cast<int>(rng.below(options.size()));
            choice.push_back(drawn);
            placement.groups.push_back(table.option(group, drawn).placed);
        }
        if (memory_of(table, choice) <= static_cast<double>(instance.budget_bytes)) {
            best = std::min(best,
                            test::reference_step_seconds(
                                instance.catalog, instance.hardware, placement, instance.decode()));
        }
    }
    return best;
}

double bound_of(const OptionTable& table, double memory) {
    PriceDual dual(table);
    return bound_with_ring(dual, memory, {}).seconds;
}

TEST(PriceDual, IsABoundOnWhateverARandomSearchFinds) {
    for (std::uint64_t seed = 0; seed < (test::kSanitized ? 20U : 200U); ++seed) {
        const test::Instance instance = draw(seed);
        const StepModel model = model_of(instance);
        const OptionTable table(model, instance.reserve(), {});
        const double bound = bound_of(table, static_cast<double>(instance.budget_bytes));
        EXPECT_GT(bound, 0.0) << instance.name;
        EXPECT_LE(bound, best_of_random(instance, table, 200) * (1.0 + 1e-9)) << instance.name;
    }
}

TEST(PriceDual, NeverRisesWithMemory) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        const test::Instance instance = draw(seed);
        const StepModel model = model_of(instance);
        const OptionTable table(model, instance.reserve(), {});
        double last = std::numeric_limits<double>::infinity();
        for (const double share : {0.0, 0.1, 0.3, 0.6, 0.9, 1.2, 10.0}) {
            const double bound =
                bound_of(table, share * static_cast<double>(instance.budget_bytes));
            // The search for prices ends at 1e-7.
            EXPECT_LE(bound, last * (1.0 + 1e-6)) << instance.name << ", " << share;
            last = bound;
        }
    }
}

TEST(PriceDual, IsBelowTheOptimumOfShortChains) {
    for (std::uint64_t seed = 0; seed < (test::kSanitized ? 30U : 600U); ++seed) {
        const test::Instance instance =
            test::draw_small_instance(seed, {.groups_min = 1, .groups_max = 8});
        const StepModel model = model_of(instance);
        const OptionTable table(model, instance.reserve(), {.streams = false});
        Rng rng(seed);
        test::ExactProblem problem = {.catalog = instance.catalog,
                                      .hardware = instance.hardware,
                                      .budget_bytes = instance.budget_bytes,
                                      .reserve = instance.reserve(),
                                      .step = instance.decode()};
        for (std::size_t group = 0; group < table.n_groups(); ++group) {
            const auto options = table.options(table.type_of(group));
            std::vector<GroupPlacement> some = {{}, all_resident(instance.catalog.groups[group])};
            for (int i = 0; i < 4; ++i) {
                some.push_back(options[rng.below(options.size())].placed);
            }
            problem.options.push_back(std::move(some));
        }
        const test::ExactResult exact = test::search_labels(problem);
        ASSERT_TRUE(exact.found) << instance.name;
        EXPECT_LE(bound_of(table, static_cast<double>(instance.budget_bytes)),
                  exact.seconds * (1.0 + 1e-9))
            << instance.name;
    }
}

TEST(PriceDual, IsExactWhereEverythingFits) {
    test::Instance instance = test::draw_small_instance(5, {.unified = false});
    instance.hardware.device_read_gbps = 10'000;  // the CPU's help is worth nothing
    instance.hardware.device_tflops = 10'000;
    const StepModel model = model_of(instance);
    const OptionTable table(model, instance.reserve(), {});
    Placement all;
    for (const TensorGroup& group : instance.catalog.groups) {
        all.groups.push_back(all_resident(group));
    }
    EXPECT_NEAR(bound_of(table, 1e15) / model.seconds(all), 1.0, 1e-6);
}

}  // namespace
}  // namespace ballast::scheduler
