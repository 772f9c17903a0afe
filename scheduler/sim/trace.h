// SPDX-License-Identifier: MIT
// What each lane did when, as a file that chrome://tracing and ui.perfetto.dev show.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/placement/placement.h"
#include "scheduler/sim/sim_lane.h"

namespace ballast::scheduler {

/// One simulation's spans. Outlives the machine that it watches.
class SimTrace {
  public:
    enum Lane { kDevice, kCpu, kLink };

    /// Notes every job of the lane from now on.
    void watch(SimLane& lane, Lane as);
    std::size_t n_spans() const { return spans_.size(); }

    /// The Trace Event Format (JSON object form: "X" events in microseconds, one thread a lane,
    /// named by the groups of the catalog). `title` names the process.
    std::string to_json(const TensorCatalog& catalog, const std::string& title) const;

  private:
    struct Span {
        Lane lane = kDevice;
        int group = -1;
        Nanoseconds begin{0};
        Nanoseconds end{0};
        double amount = 0.0;
    };
    std::vector<Span> spans_;
};

}  // namespace ballast::scheduler
