// SPDX-License-Identifier: MIT
// The port through which the scheduler sees other programs: drivers implement it, a script of
// samples does, and the simulator.
#pragma once

#include <optional>

#include "scheduler/load/gpu_sample.h"

namespace ballast::scheduler {

/// One caller at a time. Never waits for a driver longer than a step takes.
class GpuMonitor {
  public:
    virtual ~GpuMonitor() = default;
    /// What holds now, with an event only once; nothing if nothing is known yet. Asked each step
    /// and while idle.
    virtual std::optional<LoadSample> sample(Nanoseconds now) = 0;
};

}  // namespace ballast::scheduler
