// SPDX-License-Identifier: MIT
// Puts queue, machine and workload together and runs them dry.
#include "scheduler/sim/simulator.h"

#include "engine/base/check.h"

namespace ballast::scheduler {

SimulatedSteps simulate_steps(const HardwareProfile& hardware,
                              const TensorCatalog& catalog,
                              const Placement& placement,
                              const SimWorkload::Options& options,
                              const SimConditions& conditions,
                              SimTrace* trace) {
    BALLAST_CHECK(placement.groups.size() == catalog.groups.size() && options.n_steps > 0);
    EventQueue events;
    SimMachine machine(events, hardware);
    machine.set_conditions(conditions);
    if (trace != nullptr) {
        trace->watch(machine.device(), TraceSpan::kDevice);
        trace->watch(machine.cpu(), TraceSpan::kCpu);
        trace->watch(machine.link(), TraceSpan::kLink);
    }
    SimWorkload workload(machine, catalog, placement, options);
    bool done = false;
    workload.start([&] { done = true; });
    while (!done) {
        // A workload that nothing moves any more would wait for ever.
        BALLAST_CHECK(events.run_next());
    }
    const auto& ends = workload.ends();
    const bool skip_first = ends.size() > 1;
    const double all = to_seconds(ends.back());
    const double counted = skip_first ? to_seconds(ends.back() - ends.front()) : all;
    const auto n_counted = static_cast<double>(ends.size() - (skip_first ? 1 : 0));
    const auto share = [&](const SimLane& lane) {
        return all > 0.0 ? to_seconds(lane.busy_time()) / all : 0.0;
    };
    return {.seconds = counted / n_counted,
            .device_busy = share(machine.device()),
            .cpu_busy = share(machine.cpu()),
            .link_busy = share(machine.link()),
            .link_bytes = machine.link().amount_done() / static_cast<double>(ends.size()),
            .n_events = events.n_run()};
}

}  // namespace ballast::scheduler
