// SPDX-License-Identifier: MIT
// What a placement does on a machine that exists only as a profile. Every figure is simulated.
#pragma once

#include "scheduler/sim/sim_workload.h"
#include "scheduler/sim/trace.h"

namespace ballast::scheduler {

/// Of steps in a row. Shares of time are of the time that `seconds` stands for.
struct SimulatedSteps {
    double seconds = 0.0;  // of one step, the mean
    double device_busy = 0.0;
    double cpu_busy = 0.0;
    double link_busy = 0.0;
    double link_bytes = 0.0;  // that crossed in a step
    std::uint64_t n_events = 0;
};

/// Runs the steps, as many as the options say; of more than one the first, which meets an empty
/// ring, does not count for `seconds`. Preconditions: one entry a group; nothing streamed in decode
/// on unified memory; rates above 0, but the device's and the link's where there is none.
/// Others leave what `conditions` say, in which nothing is stalled. `trace`, if there is one, gets
/// what each lane did.
SimulatedSteps simulate_steps(const HardwareProfile& hardware,
                              const TensorCatalog& catalog,
                              const Placement& placement,
                              const SimWorkload::Options& options,
                              const SimConditions& conditions = {},
                              SimTrace* trace = nullptr);

}  // namespace ballast::scheduler
