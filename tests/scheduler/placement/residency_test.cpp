// SPDX-License-Identifier: MIT
#include "scheduler/placement/residency.h"

#include <gtest/gtest.h>

#include "scheduler/placement/planner.h"
#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"

namespace ballast::scheduler {
namespace {

constexpr double kGiga = 1e9;

class Case {
  public:
    explicit Case(const char* model)
        : catalog(*catalog_of(*stored_model(model), "")),
          model_(catalog,
                 CostModel(*stored_hardware("laptop-4060")),
                 {.shape = {.tokens = 1, .depth = 2048}}),
          residency(catalog, reserve) {}

    Placement plan(double gigabytes) const {
        return make_plan({.catalog = &catalog,
                          .costs = CostModel(*stored_hardware("laptop-4060")),
                          .memory_bytes = gigabytes * kGiga,
                          .reserve = reserve,
                          .depth = 2048})
            .plan.placement;
    }

    KvReserve reserve = {.tokens = 4096};
    TensorCatalog catalog;
    StepModel model_;
    Residency residency;
};

std::uint64_t bytes_of(double gigabytes) {
    return static_cast<std::uint64_t>(gigabytes * kGiga);
}

TEST(Residency, KeepsAPlanThatHasRoomAsItIs) {
    for (const char* model : {"qwen3-14b", "qwen3-30b-a3b"}) {
        SCOPED_TRACE(model);
        const Case of(model);
        const Placement plan = of.plan(6.0);
        const ResidencyUse use = of.residency.best_use(of.model_, plan, {&plan, 1}, bytes_of(6.0));
        EXPECT_NEAR(use.seconds, of.model_.seconds(plan), 0.001 * use.seconds);
        for (std::size_t i = 0; i < plan.groups.size(); ++i) {
            EXPECT_EQ(use.kept.groups[i].resident, plan.groups[i].resident);
        }
    }
}

TEST(Residency, FitsEveryBudgetAndIsNoSlowerThanTheCpuAlone) {
    for (const char* model : {"qwen3-14b", "qwen3-30b-a3b"}) {
        const Case of(model);
        const Placement held = of.plan(6.0);
        const double alone = of.model_.seconds(cpu_only(of.catalog));
        double before = 0.0;
        for (const double gigabytes : {5.0, 3.0, 1.5, 0.3, 0.0}) {
            SCOPED_TRACE(gigabytes);
            const std::array<Placement, 2> plans = {of.plan(std::max(0.01, gigabytes)), held};
            const ResidencyUse use =
                of.residency.best_use(of.model_, held, plans, bytes_of(gigabytes));
            EXPECT_LE(of.residency.bytes(use.kept, use.executed), bytes_of(gigabytes));
            EXPECT_LE(use.seconds, alone);
            EXPECT_GE(use.seconds, before);
            before = use.seconds;
            for (std::size_t i = 0; i < held.groups.size(); ++i) {
                EXPECT_LE(use.kept.groups[i].resident, held.groups[i].resident);
                EXPECT_LE(use.executed.groups[i].resident, use.kept.groups[i].resident);
            }
        }
    }
}

TEST(Residency, GrowsToThePlanWithinTheBytesThatItMay) {
    for (const char* model : {"qwen3-14b", "qwen3-30b-a3b"}) {
        SCOPED_TRACE(model);
        const Case of(model);
        const Placement nothing = cpu_only(of.catalog);
        const Placement plan = of.plan(6.0);
        Placement kept = nothing;
        std::uint64_t bytes = 0;
        for (const ResidencyGrowth& more :
             of.residency.growth(of.model_, nothing, plan, bytes_of(2.0))) {
            kept.groups[more.group] = more.then;
            bytes += more.bytes;
        }
        EXPECT_LE(bytes, bytes_of(2.0));
        EXPECT_GE(bytes, bytes_of(1.9));
        EXPECT_EQ(bytes, of.residency.bytes(kept, nothing));
        for (const ResidencyGrowth& more :
             of.residency.growth(of.model_, kept, plan, bytes_of(6.0))) {
            kept.groups[more.group] = more.then;
        }
        for (std::size_t i = 0; i < plan.groups.size(); ++i) {
            EXPECT_EQ(kept.groups[i].resident, plan.groups[i].resident);
            EXPECT_EQ(kept.groups[i].shared_on_device, plan.groups[i].shared_on_device);
        }
    }
}

TEST(Residency, DropsForAPlanOnlyWhatItDoesNotWant) {
    const Case of("qwen3-14b");
    const Placement held = of.plan(2.0);
    const Placement plan = of.plan(4.0);
    const Placement wanted = of.residency.with_plan(held, plan, bytes_of(4.0));
    EXPECT_LE(of.residency.bytes(wanted, plan), bytes_of(4.0));
    for (std::size_t i = 0; i < plan.groups.size(); ++i) {
        EXPECT_GE(wanted.groups[i].resident, plan.groups[i].resident);
    }
}

TEST(Residency, CountsTheKeysOfHeadsThatStreamOnceTheyAreDropped) {
    const Case of("qwen3-14b");
    Placement held = cpu_only(of.catalog);
    Placement plan = held;
    for (std::size_t i = 0; i < plan.groups.size(); ++i) {
        const TensorGroup& group = of.catalog.groups[i];
        if (group.kind == GroupKind::kAttention) {
            held.groups[i].resident = group.parts;
            plan.groups[i].streamed = group.parts / 2;
        }
    }
    const std::uint64_t least = of.residency.bytes(cpu_only(of.catalog), plan);
    const std::uint64_t most = of.residency.bytes(held, plan);
    for (const double share : {0.0, 0.3, 0.6}) {
        SCOPED_TRACE(share);
        const std::uint64_t budget =
            least + static_cast<std::uint64_t>(share * static_cast<double>(most - least));
        const Placement wanted = of.residency.with_plan(held, plan, budget);
        EXPECT_LE(of.residency.bytes(wanted, plan), budget);
    }
}

}  // namespace
}  // namespace ballast::scheduler
