// SPDX-License-Identifier: MIT
// Moves from a plan, from plans that leave much to improve.
#include "scheduler/placement/plan_refine.h"

#include <gtest/gtest.h>

#include "tests/scheduler/placement/plan_quality.h"

namespace ballast::test {
namespace {

using scheduler::OptionTable;
using scheduler::Refined;
using scheduler::RefineTask;
using scheduler::StepModel;

constexpr std::uint64_t kSeeds = 24;

/// An instance with its models, and the plan that uses the CPU alone.
class Refining {
  public:
    explicit Refining(const Instance& instance)
        : instance_(instance),
          request_(request_of(instance)),
          decode_(instance.catalog,
                  request_.costs,
                  {.shape = {.depth = instance.depth},
                   .hops = request_.hops,
                   .locality = request_.locality}),
          prefill_(instance.catalog,
                   request_.costs,
                   {.shape = {.tokens = instance.prefill_tokens},
                    .hops = request_.hops,
                    .locality = request_.locality}),
          table_(decode_, request_.reserve, {}),
          task_({.decode = &table_,
                 .prefill = &prefill_,
                 .reserve = request_.reserve,
                 .memory_bytes = request_.memory_bytes,
                 .decode_weight = request_.decode_weight,
                 .prefill_weight = request_.prefill_weight / request_.prefill_tokens,
                 .max_steps = 40000,
                 .max_replays = 12}) {}

    RefineTask& task() { return task_; }
    Refined start() const {
        const scheduler::Placement placement = scheduler::cpu_only(instance_.catalog);
        return {.placement = placement,
                .decode_seconds = decode_.seconds(placement),
                .prefill_seconds = prefill_.seconds(placement)};
    }
    double value(const Refined& plan) const {
        return task_.decode_weight * plan.decode_seconds +
               task_.prefill_weight * plan.prefill_seconds;
    }
    void expect_promises(const Refined& plan) const {
        EXPECT_LE(reference_device_bytes(instance_.catalog, plan.placement, instance_.reserve()),
                  request_.memory_bytes)
            << instance_.name;
        const double decode = reference_step_seconds(
            instance_.catalog, instance_.hardware, plan.placement, instance_.decode());
        const double prefill = reference_step_seconds(
            instance_.catalog, instance_.hardware, plan.placement, instance_.prefill());
        EXPECT_NEAR(plan.decode_seconds, decode, 1e-6 * decode) << instance_.name;
        EXPECT_NEAR(plan.prefill_seconds, prefill, 1e-6 * prefill) << instance_.name;
    }

  private:
    const Instance& instance_;
    scheduler::PlanRequest request_;
    StepModel decode_;
    StepModel prefill_;
    OptionTable table_;
    RefineTask task_;
};

TEST(PlanRefine, GivesPlansThatFitAndTakeWhatItSays) {
    int n_better = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        const Instance instance = draw_instance(seed);
        Refining refining(instance);
        const Refined start = refining.start();
        const Refined refined = scheduler::refine_plan(refining.task(), start);
        refining.expect_promises(refined);
        EXPECT_LE(refining.value(refined), refining.value(start)) << instance.name;
        n_better += refining.value(refined) < 0.9 * refining.value(start) ? 1 : 0;
    }
    EXPECT_GE(n_better, static_cast<int>(kSeeds / 2));
}

TEST(PlanRefine, GivesTheSamePlanTwice) {
    const Instance instance = draw_instance(3);
    Refining refining(instance);
    const Refined once = scheduler::refine_plan(refining.task(), refining.start());
    const Refined again = scheduler::refine_plan(refining.task(), refining.start());
    EXPECT_EQ(once.placement, again.placement);
    EXPECT_EQ(once.decode_seconds, again.decode_seconds);
}

TEST(PlanRefine, LeavesAPlanThatIsGoodEnough) {
    const Instance instance = draw_instance(3);
    Refining refining(instance);
    const Refined start = refining.start();
    EXPECT_NE(scheduler::refine_plan(refining.task(), start).placement, start.placement);
    refining.task().good_enough = refining.value(start);
    EXPECT_EQ(scheduler::refine_plan(refining.task(), start).placement, start.placement);
}

TEST(PlanRefine, DividesNoGroupWhereTheLadderDoesNot) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        const Instance instance = draw_instance(seed);
        scheduler::PlanRequest request = request_of(instance);
        request.ladder = {.splits = false};
        const scheduler::PlanResult result = scheduler::make_plan(request);
        for (std::size_t i = 0; i < instance.catalog.groups.size(); ++i) {
            const scheduler::GroupPlacement& placed = result.plan.placement.groups[i];
            const int parts = instance.catalog.groups[i].parts;
            EXPECT_TRUE(placed.resident == 0 || placed.resident == parts) << instance.name;
            EXPECT_TRUE(placed.streamed == 0 || placed.streamed == parts) << instance.name;
        }
    }
}

}  // namespace
}  // namespace ballast::test
