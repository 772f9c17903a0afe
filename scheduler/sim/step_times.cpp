// SPDX-License-Identifier: MIT
// Both ways run the same workload on the same machine.
#include "scheduler/sim/step_times.h"

#include <algorithm>

#include "engine/base/check.h"

namespace ballast::scheduler {

namespace {

// The ring settles within a step or two, drawn experts within a percent.
constexpr int kStepsStreaming = 4;
constexpr int kStepsDrawn = 33;

bool streams(const Placement& placement) {
    return std::any_of(placement.groups.begin(), placement.groups.end(), [](const auto& placed) {
        return placed.streamed > 0;
    });
}

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
                options(setup, streams(placement) ? 2 : 1, routing_seed)) {
    machine_.set_conditions(conditions);
    workload_.start([this] { done_ = true; });
    if (streams(placement)) {
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
    EventQueue events;
    SimMachine machine(events, setup_.hardware);
    machine.set_conditions(conditions);
    const int n_steps = setup_.catalog->has_experts() ? kStepsDrawn
                        : streams(placement)          ? kStepsStreaming
                                                      : 1;
    SimWorkload workload(machine, *setup_.catalog, placement, options(setup_, n_steps, 1));
    bool done = false;
    workload.start([&] { done = true; });
    while (!done) {
        // With nothing stalled and every rate above 0, something is always due.
        BALLAST_CHECK(events.run_next());
    }
    const auto& ends = workload.ends();
    if (n_steps == 1) {
        return to_seconds(ends.back());
    }
    return to_seconds(ends.back() - ends.front()) / (n_steps - 1);
}

}  // namespace ballast::scheduler
