// SPDX-License-Identifier: MIT
// What each lane did when, as a file that chrome://tracing and ui.perfetto.dev show: of a simulated
// machine, and of one that is there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/placement/placement.h"
#include "scheduler/sim/sim_lane.h"

namespace ballast::scheduler {

/// One piece of work of a lane.
struct TraceSpan {
    enum Lane { kDevice, kCpu, kLink };

    Lane lane = kDevice;
    const char* what = "work";  // its name if it is of no group
    int first_group = -1;       // of the catalog; −1: none
    int n_groups = 1;
    double share = 0.0;  // of the groups' parts; 0: not told
    double bytes = 0.0;  // of weights that are read, or that cross; 0: not told
    Nanoseconds begin{0};
    Nanoseconds end{0};
};

/// The Trace Event Format (JSON object form: "X" events in microseconds, one thread a lane, named
/// by the groups of the catalog). `title` names the process.
std::string trace_json(const TensorCatalog& catalog,
                       std::span<const TraceSpan> spans,
                       const std::string& title,
                       bool is_simulated);

/// One simulation's spans. Outlives the machine that it watches.
class SimTrace {
  public:
    using Lane = TraceSpan::Lane;

    /// Notes every job of the lane from now on.
    void watch(SimLane& lane, Lane as);
    std::size_t n_spans() const { return spans_.size(); }

    /// trace_json() of it.
    std::string to_json(const TensorCatalog& catalog, const std::string& title) const;

  private:
    std::vector<TraceSpan> spans_;
};

}  // namespace ballast::scheduler
