// SPDX-License-Identifier: MIT
// The cheapest chain at given prices, against a plain dynamic program over every group and lead.
#include "scheduler/placement/price_dual.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/scheduler/reference/instances.h"

namespace ballast::scheduler {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array<Prices, 4> kPrices = {{{},
                                            {.memory = 1e-10, .link = 0.0},
                                            {.memory = 3e-11, .link = 0.3},
                                            {.memory = 5e-10, .link = 0.8}}};

StepModel model_of(const test::Instance& instance) {
    return StepModel(instance.catalog,
                     CostModel(instance.hardware),
                     {.shape = {.tokens = 1, .depth = instance.depth},
                      .hops = instance.blocking_hops ? HopModel::kBlocking : HopModel::kOverlapped,
                      .locality = static_cast<Locality>(instance.locality)});
}

double use_of(const Option& option, const Prices& prices) {
    return prices.memory * option.memory + prices.link * option.link_seconds;
}

/// Every option that the ring can hold, from every lead: of larger ones a group's time has a part
/// that the chain below does not know.
double plain_value(const OptionTable& table, const Prices& prices) {
    const double of_time = 1.0 - prices.link;
    std::array<double, kLeads> reached;
    reached.fill(kInfinity);
    reached[0] = of_time * table.hop();
    for (std::size_t group = 0; group < table.n_groups(); ++group) {
        std::array<double, kLeads> next;
        next.fill(kInfinity);
        for (std::size_t lead = 0; lead < kLeads; ++lead) {
            for (const Option& option : table.options(table.type_of(group))) {
                if (option.piece > kRingBytesMax) {
                    continue;
                }
                double& known = next[option.next[lead]];
                known = std::min(
                    known, reached[lead] + of_time * option.delta[lead] + use_of(option, prices));
            }
        }
        reached = next;
    }
    double value = kInfinity;
    for (int lead = 0; lead < kLeads; ++lead) {
        value =
            std::min(value, reached[static_cast<std::size_t>(lead)] + of_time * table.lead(lead));
    }
    return value;
}

/// What a plan that is one of these options a group takes, leads as they are.
double value_of(const OptionTable& table, const std::vector<int>& choice, const Prices& prices) {
    ChainState state = {.device = table.hop(), .cpu = 0.0};
    double use = 0.0;
    for (std::size_t group = 0; group < choice.size(); ++group) {
        const Option& option = table.option(group, choice[group]);
        state = table.model().advance(option.cost, state);
        use += use_of(option, prices);
    }
    return (1.0 - prices.link) * state.cpu + use;
}

TEST(PriceDual, IsNoLooserThanEveryLeadOfEveryGroupAndStillABound) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const test::Instance instance = test::draw_instance(seed);
        const StepModel model = model_of(instance);
        const OptionTable table(model, instance.reserve(), {});
        PriceDual dual(table);
        for (const Prices& prices : kPrices) {
            const double value = dual.cheapest(prices, kRingBytesMax).value;
            EXPECT_GE(value, plain_value(table, prices) * (1.0 - 1e-9)) << instance.name;
            const std::vector<int> choice = dual.cheapest_choice(prices, kRingBytesMax);
            EXPECT_LE(value, value_of(table, choice, prices) * (1.0 + 1e-9)) << instance.name;
        }
    }
}

TEST(PriceDual, AddsUpTheChainItFound) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const test::Instance instance = test::draw_instance(seed);
        const StepModel model = model_of(instance);
        const OptionTable table(model, instance.reserve(), {});
        PriceDual dual(table);
        for (const Prices& prices : kPrices) {
            const ChainSums sums = dual.cheapest(prices, kInfinity);
            double memory = 0.0;
            double link = 0.0;
            const std::vector<int> choice = dual.cheapest_choice(prices, kInfinity);
            for (std::size_t group = 0; group < choice.size(); ++group) {
                memory += table.option(group, choice[group]).memory;
                link += table.option(group, choice[group]).link_seconds;
            }
            EXPECT_NEAR(sums.memory, memory, 1.0) << instance.name;
            EXPECT_NEAR(sums.link_seconds, link, 1e-9) << instance.name;
            EXPECT_NEAR(sums.value,
                        (1.0 - prices.link) * sums.seconds + prices.memory * sums.memory +
                            prices.link * sums.link_seconds,
                        1e-9 * sums.value)
                << instance.name;
        }
    }
}

TEST(OptionTable, FindsWhereTypesRecur) {
    TensorCatalog catalog = {.width = 1024};
    const auto add = [&](std::uint64_t bytes) {
        catalog.groups.push_back({.layer = static_cast<int>(catalog.groups.size()),
                                  .parts = 4,
                                  .weight_bytes = bytes,
                                  .weights = bytes});
    };
    add(500);
    for (int i = 0; i < 5; ++i) {
        add(100);
        add(200);
        add(100);
    }
    add(600);
    const StepModel model(catalog, CostModel(test::draw_instance(0).hardware), {});
    const OptionTable table(model, {.unified_memory = model.unified()}, {});
    ASSERT_EQ(table.recurrences().size(), 1U);
    EXPECT_EQ(table.recurrences()[0].begin, 1U);
    EXPECT_EQ(table.recurrences()[0].end, 16U);
    EXPECT_EQ(table.recurrences()[0].period, 3U);
}

}  // namespace
}  // namespace ballast::scheduler
