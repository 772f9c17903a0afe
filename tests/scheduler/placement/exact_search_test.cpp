// SPDX-License-Identifier: MIT
// The exact search against one that shares no code with it.
#include "scheduler/placement/exact_search.h"

#include <gtest/gtest.h>

#include "tests/scheduler/reference/exact_search.h"
#include "tests/scheduler/reference/instances.h"
#include "tests/support/sanitizer.h"

namespace ballast::scheduler {
namespace {

/// Indices of these divisions in the table; a division that is not there is left out of both.
std::vector<std::vector<int>> indices_of(const OptionTable& table,
                                         std::vector<std::vector<GroupPlacement>>& options) {
    std::vector<std::vector<int>> allowed(options.size());
    for (std::size_t group = 0; group < options.size(); ++group) {
        std::erase_if(options[group], [&](const GroupPlacement& placed) {
            return table.find(table.type_of(group), placed) < 0;
        });
        for (const GroupPlacement& placed : options[group]) {
            allowed[group].push_back(table.find(table.type_of(group), placed));
        }
    }
    return allowed;
}

/// From two to six divisions a group out of the table, none of which streams.
std::vector<std::vector<GroupPlacement>> draw(Rng& rng, const OptionTable& table) {
    std::vector<std::vector<GroupPlacement>> lists(table.n_groups());
    for (std::size_t group = 0; group < lists.size(); ++group) {
        const std::span<const Option> all = table.options(table.type_of(group));
        const std::size_t wanted = 2 + rng.below(kExactOptionsMax - 1);
        lists[group].push_back({});  // the CPU
        for (int tries = 0; tries < 50 && lists[group].size() < wanted; ++tries) {
            const Option& option = all[rng.below(static_cast<std::uint32_t>(all.size()))];
            if (option.piece == 0.0) {
                lists[group].push_back(option.placed);
            }
        }
    }
    return lists;
}

TEST(ExactSearch, EqualsASearchThatSharesNoCodeWithIt) {
    int n_compared = 0;
    for (std::uint64_t seed = 0; seed < (test::kSanitized ? 60U : 600U); ++seed) {
        test::Instance instance = test::draw_small_instance(seed);
        KvReserve reserve = instance.reserve();
        reserve.unified_memory = instance.hardware.unified_memory;
        const StepModel model(
            instance.catalog,
            CostModel(instance.hardware),
            {.shape = {.tokens = 1, .depth = instance.depth},
             .hops = instance.blocking_hops ? HopModel::kBlocking : HopModel::kOverlapped,
             .locality = static_cast<Locality>(instance.locality)});
        const OptionTable table(model, reserve, {});
        Rng rng(seed);
        std::vector<std::vector<GroupPlacement>> options = draw(rng, table);
        const std::vector<std::vector<int>> allowed = indices_of(table, options);
        const test::ExactResult expected =
            test::search_labels({.catalog = instance.catalog,
                                 .hardware = instance.hardware,
                                 .budget_bytes = instance.budget_bytes,
                                 .reserve = reserve,
                                 .options = options,
                                 .step = instance.decode()});
        const auto found = exact_choice(table, static_cast<double>(instance.budget_bytes), allowed);
        if (!found) {
            // Too many chains on one memory; nothing else ends without a choice.
            EXPECT_TRUE(instance.hardware.unified_memory || instance.blocking_hops ||
                        !expected.found)
                << instance.name;
            continue;
        }
        ++n_compared;
        ASSERT_TRUE(expected.found) << instance.name;
        EXPECT_NEAR(found->seconds / expected.seconds, 1.0, 1e-9) << instance.name;
    }
    EXPECT_GE(n_compared, test::kSanitized ? 45 : 450);
}

TEST(ExactSearch, FindsNothingWhereNothingFits) {
    const test::Instance instance = test::draw_small_instance(3, {.unified = false});
    const StepModel model(instance.catalog, CostModel(instance.hardware), {});
    const OptionTable table(model, instance.reserve(), {});
    std::vector<std::vector<int>> whole(table.n_groups());
    for (std::size_t group = 0; group < whole.size(); ++group) {
        const TensorGroup& of = instance.catalog.groups[group];
        whole[group] = {
            table.find(table.type_of(group),
                       {.resident = of.parts, .shared_on_device = of.kind == GroupKind::kExperts})};
        ASSERT_GE(whole[group].front(), 0);
    }
    EXPECT_FALSE(exact_choice(table, 1.0, whole));
    EXPECT_TRUE(exact_choice(table, 1e15, whole));
}

}  // namespace
}  // namespace ballast::scheduler
