// SPDX-License-Identifier: MIT
// Device memory of placements, and what the other policies do with it.
#include "scheduler/placement/placement.h"

#include <set>

#include <gtest/gtest.h>

#include "scheduler/placement/policies.h"
#include "tests/scheduler/reference/instances.h"

namespace ballast::scheduler {
namespace {

constexpr Policy kPolicies[] = {Policy::kCpuOnly,
                                Policy::kWholeLayers,
                                Policy::kExpertsLast,
                                Policy::kStatic,
                                Policy::kStaticStreaming};

TEST(Placement, CountsWeightsKvAndTheRing) {
    TensorCatalog catalog;
    catalog.embedding_bytes = 1'000'000'000;  // never on the device
    catalog.groups = {{.kind = GroupKind::kAttention,
                       .parts = 4,
                       .weight_bytes = 1000,
                       .kv_bytes_per_token = 8,
                       .state_bytes = 40},
                      {.parts = 3, .weight_bytes = 100},
                      {.kind = GroupKind::kExperts,
                       .parts = 8,
                       .weight_bytes = 50,
                       .experts_used = 2,
                       .expert_bytes = 10}};
    const Placement placement = {{{.resident = 1, .streamed = 2},
                                  {.resident = 2},
                                  {.resident = 3, .shared_on_device = true}}};
    const DeviceBytes bytes = device_bytes(catalog, placement, {.tokens = 100});
    // 250 of attention, 66.7 rounded up, 30 and 50 of experts.
    EXPECT_EQ(bytes.weights, 250U + 67U + 80U);
    // Three heads of four: keys, values and states, also of what streams.
    EXPECT_EQ(bytes.kv, 840U * 3 / 4);
    // Four tiles of the 500 bytes that stream.
    EXPECT_EQ(bytes.ring, 2000U);
    EXPECT_EQ(bytes.total(), bytes.weights + bytes.kv + bytes.ring);
    EXPECT_EQ(device_bytes(catalog, cpu_only(catalog), {.tokens = 100}).total(), 0U);
}

TEST(Placement, TakesTheMemoryThatTheReferenceSays) {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        const test::Instance instance = test::draw_small_instance(seed);
        const bool unified = instance.hardware.unified_memory;
        Rng rng(seed);
        Placement placement;
        for (const TensorGroup& group : instance.catalog.groups) {
            const auto part = [&](int n) {
                return static_cast<int>(rng.below(static_cast<std::uint64_t>(n + 1)));
            };
            const bool experts = group.kind == GroupKind::kExperts;
            GroupPlacement placed = {.shared_on_device = experts && part(1) == 1};
            placed.resident = experts && !placed.shared_on_device ? 0 : part(group.parts);
            placed.streamed = experts || unified ? 0 : part(group.parts - placed.resident);
            placed.prefill_streamed = part(group.parts - placed.resident);
            placement.groups.push_back(placed);
        }
        const auto bytes = static_cast<double>(
            device_bytes(instance.catalog, placement, instance.reserve()).total());
        const double expected =
            test::reference_device_bytes(instance.catalog, placement, instance.reserve());
        // Shares are rounded up: by less than a byte each, and four in the ring.
        EXPECT_GE(bytes, expected * (1.0 - 1e-12)) << instance.name;
        EXPECT_LE(bytes, expected + 2.0 * static_cast<double>(placement.groups.size()) + 4.0)
            << instance.name;
    }
}

TEST(Policies, FitWhateverTheBudget) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        test::Instance instance = test::draw_instance(seed);
        if (seed % 10 == 0) {
            instance.budget_bytes = seed % 20 == 0 ? 0 : 1ULL << 50U;
        }
        for (const Policy policy : kPolicies) {
            const auto all = policy_placements(policy,
                                               instance.catalog,
                                               static_cast<double>(instance.budget_bytes),
                                               instance.reserve(),
                                               instance.hardware.unified_memory);
            for (const Placement& placement : all) {
                ASSERT_EQ(placement.groups.size(), instance.catalog.groups.size());
                EXPECT_LE(device_bytes(instance.catalog, placement, instance.reserve()).total(),
                          instance.budget_bytes)
                    << policy_name(policy) << ", " << instance.name;
            }
            const bool must = policy == Policy::kCpuOnly || policy == Policy::kWholeLayers ||
                              policy == Policy::kStatic;
            EXPECT_TRUE(!must || !all.empty()) << policy_name(policy);
            EXPECT_TRUE(policy != Policy::kExpertsLast || instance.catalog.has_experts() ||
                        all.empty());
            EXPECT_TRUE(policy != Policy::kStaticStreaming || !instance.hardware.unified_memory ||
                        all.empty());
        }
    }
}

TEST(Policies, HaveNamesOfTheirOwn) {
    std::set<std::string> names;
    for (const Policy policy : kPolicies) {
        EXPECT_NE(std::string(policy_name(policy)), "");
        names.insert(policy_name(policy));
    }
    EXPECT_EQ(names.size(), std::size(kPolicies));
}

/// Four layers of attention and feed-forward of 100 bytes each, and a head of 50.
TensorCatalog four_layers() {
    TensorCatalog catalog;
    for (int layer = 0; layer < 4; ++layer) {
        catalog.groups.push_back(
            {.kind = GroupKind::kAttention, .layer = layer, .weight_bytes = 100});
        catalog.groups.push_back({.layer = layer, .weight_bytes = 100});
    }
    catalog.groups.push_back({.kind = GroupKind::kHead, .weight_bytes = 50});
    return catalog;
}

TEST(Policies, WholeLayersMoveFromTheLastOnAndTheHeadComesLast) {
    const TensorCatalog catalog = four_layers();
    const auto resident = [&](double limit) {
        const auto all = policy_placements(Policy::kWholeLayers, catalog, limit, {}, false);
        std::string text;
        for (const GroupPlacement& placed : all.front().groups) {
            text += placed.resident > 0 ? 'd' : 'c';
        }
        return text;
    };
    EXPECT_EQ(resident(199), "ccccccccc");
    EXPECT_EQ(resident(399), "ccccccddc");
    EXPECT_EQ(resident(800), "ddddddddc");
    EXPECT_EQ(resident(850), "ddddddddd");
}

TEST(Policies, ExpertsLastNeedsRoomForEverythingElse) {
    TensorCatalog catalog = four_layers();
    for (int layer = 0; layer < 4; ++layer) {
        TensorGroup& group = catalog.groups[static_cast<std::size_t>(2 * layer + 1)];
        group = {.kind = GroupKind::kExperts,
                 .layer = layer,
                 .parts = 10,
                 .weight_bytes = 10,
                 .experts_used = 2,
                 .expert_bytes = 100};
    }
    const auto placed = [&](double limit) {
        return policy_placements(Policy::kExpertsLast, catalog, limit, {}, false);
    };
    EXPECT_TRUE(placed(489).empty());  // 4 · 100 + 4 · 10 + 50
    ASSERT_EQ(placed(490).size(), 1U);
    EXPECT_EQ(placed(490)[0].groups[1], (GroupPlacement{.shared_on_device = true}));
    const Placement two = placed(490 + 2999)[0];
    EXPECT_EQ(two.groups[3].resident, 10);
    EXPECT_EQ(two.groups[5].resident, 0);
    EXPECT_TRUE(two.groups[7].shared_on_device);
}

}  // namespace
}  // namespace ballast::scheduler
