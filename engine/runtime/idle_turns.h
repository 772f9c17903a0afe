// SPDX-License-Identifier: MIT
// What the engine thread does while no job is there: it waits for one, or does a slice of the idle
// task when none has come for a while.
#pragma once

#include "engine/base/clock.h"
#include "engine/runtime/ports.h"

namespace ballast::runtime {

/// Engine thread, but for set_task(), which comes before it starts.
class IdleTurns {
  public:
    /// Outlives it.
    void set_task(IdleTask& task) { task_ = &task; }
    /// A job runs.
    void busy(Nanoseconds now);
    /// Waits for a job, or does a slice.
    void pass(JobSource& source, Compute& compute, Nanoseconds now);

  private:
    void run_slice(Compute& compute);

    IdleTask* task_ = nullptr;  // null once it has ended
    bool slice_fresh_ = false;  // no job can have disturbed it
    Nanoseconds last_busy_{0};
};

}  // namespace ballast::runtime
