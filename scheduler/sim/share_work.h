// SPDX-License-Identifier: MIT
// What the two sides have to do of a group in one step, computed from docs/scheduling.md and
// without the planner's step model, which the simulator is there to check.
#pragma once

#include "engine/base/rng.h"
#include "scheduler/placement/placement.h"
#include "scheduler/profile/cost_model.h"
#include "scheduler/profile/hardware_profile.h"

namespace ballast::scheduler {

/// Seconds at full pace. No side that has nothing to do takes part.
struct ShareWork {
    bool on_device = false;
    bool on_cpu = false;
    double device_seconds = 0.0;    // before the first tile: what is resident, keys and values
    double streamed_seconds = 0.0;  // on what crosses the link, as it arrives
    double streamed_bytes = 0.0;
    double cpu_seconds = 0.0;
    double cpu_bytes = 0.0;
};

/// Under this division in this step. Experts that a token meets are drawn, in decode, from the
/// locality's popularities; in prefill their expected number counts.
ShareWork share_work(const HardwareProfile& hardware,
                     const TensorGroup& group,
                     const GroupPlacement& placed,
                     const StepShape& step,
                     Locality locality,
                     Rng& routing);

/// A number from 0 to 1 drawn so that the share f of the experts that are asked for most is met
/// with the probability h(f) of docs/scheduling.md: an expert's place in that order.
double draw_expert(Locality locality, Rng& routing);

}  // namespace ballast::scheduler
