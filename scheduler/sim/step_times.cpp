// SPDX-License-Identifier: MIT
// Both ways run the same workload on the same machine.
#include "scheduler/sim/step_times.h"

#include <algorithm>

#include "engine/base/check.h"
#include "scheduler/sim/simulator.h"

namespace ballast::scheduler {

namespace {

// The ring settles within a step or two, drawn experts within a percent.
constexpr int kStepsStreaming = 4;
constexpr int kStepsDrawn = 33;

SimWorkload::Options options(const StepSetup& setup, int n_steps, std::uint64_t seed) {
    return {.shape = {.tokens = 1, .depth = setup.depth},
            .hops = setup.hops,
            .locality = setup.locality,
            .n_steps = n_steps,
            .routing_seed = seed};
}

}  // namespace

StepReplay::StepReplay(const StepSetup& setup,
                       const Placement& placement,
                       const SimConditions& conditions,
                       std::uint64_t routing_seed)
    : placement_(placement),
      machine_(events_, setup.hardware),
      workload_(machine_,
                *setup.catalog,
                placement_,
                options(setup, placement.streams() ? 2 : 1, routing_seed)) {
    machine_.set_conditions(conditions);
    workload_.start([this] { done_ = true; });
    if (placement.streams()) {
        while (workload_.ends().empty()) {
            BALLAST_CHECK(events_.run_next());
        }
        begin_ = workload_.ends().front();
    }
}

bool StepReplay::run_until(Nanoseconds time) {
    while (!done_) {
        const auto next = events_.next_time();
        if (!next || *next - begin_ > time) {
            break;
        }
        events_.run_next();
    }
    return done_;
}

void StepReplay::replace(const Placement& placement) {
    auto next = std::make_unique<const Placement>(placement);
    workload_.replace(*next);
    replaced_ = std::move(next);
}

double StepTimes::seconds(const Placement& placement, const SimConditions& conditions) {
    Key key{.conditions = conditions};
    key.placement.reserve(2 * placement.groups.size());
    for (const GroupPlacement& placed : placement.groups) {
        key.placement.push_back(2 * placed.resident + (placed.shared_on_device ? 1 : 0));
        key.placement.push_back(placed.streamed);
    }
    const auto found = known_.find(key);
    if (found != known_.end()) {
        return found->second;
    }
    const double seconds = simulate(placement, conditions);
    known_.emplace(std::move(key), seconds);
    return seconds;
}

double StepTimes::simulate(const Placement& placement, const SimConditions& conditions) const {
    const int n_steps = setup_.catalog->has_experts() ? kStepsDrawn
                        : placement.streams()         ? kStepsStreaming
                                                      : 1;
    return simulate_steps(
               setup_.hardware, *setup_.catalog, placement, options(setup_, n_steps, 1), conditions)
        .seconds;
}

}  // namespace ballast::scheduler
