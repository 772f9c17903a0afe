// SPDX-License-Identifier: MIT
// A step in which something changes.
#include <gtest/gtest.h>

#include "scheduler/placement/planner.h"
#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"
#include "scheduler/sim/step_times.h"

namespace ballast::scheduler {
namespace {

/// Every feed-forward group streams a quarter of itself; some others are resident.
Placement streaming(const TensorCatalog& catalog) {
    Placement placement = cpu_only(catalog);
    for (std::size_t i = 0; i < placement.groups.size(); ++i) {
        const TensorGroup& group = catalog.groups[i];
        if (group.kind == GroupKind::kFeedForward) {
            placement.groups[i].streamed = group.parts / 4;
        } else if (i % 4 == 0) {
            placement.groups[i].resident = group.parts;
        }
    }
    return placement;
}

Placement without_streams(Placement placement) {
    for (GroupPlacement& placed : placement.groups) {
        placed.streamed = 0;
    }
    return placement;
}

TEST(StepReplay, LeavesTheRestToTheCpuWhereStreamsStop) {
    const TensorCatalog catalog = *catalog_of(*stored_model("qwen3-14b"), "");
    for (const HopModel hops : {HopModel::kOverlapped, HopModel::kBlocking}) {
        const StepSetup setup{.catalog = &catalog,
                              .hardware = *stored_hardware("laptop-4060"),
                              .depth = 2048,
                              .hops = hops};
        const Placement with = streaming(catalog);
        const Placement without = without_streams(with);
        StepTimes times(setup);
        const double fast = times.seconds(with, {});
        const double slow = times.seconds(without, {});
        ASSERT_LT(fast, 0.95 * slow);
        double before = slow;
        for (const double share : {0.0, 0.25, 0.5, 0.75}) {
            SCOPED_TRACE(share);
            StepReplay replay(setup, with, {}, 1);
            ASSERT_FALSE(replay.run_until(to_nanoseconds(share * fast)));
            replay.replace(without);
            ASSERT_TRUE(replay.run_until(Nanoseconds::max()));
            const double stopped = to_seconds(replay.ended());
            EXPECT_GT(stopped, fast);
            EXPECT_LE(stopped, 1.001 * before);
            before = stopped;
        }
        EXPECT_LT(before, 0.98 * slow);
    }
}

}  // namespace
}  // namespace ballast::scheduler
