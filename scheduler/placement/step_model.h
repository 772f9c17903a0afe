// SPDX-License-Identifier: MIT
// How long a step takes under a placement: the model of docs/scheduling.md, as the planner
// computes it.
#pragma once

#include <span>
#include <vector>

#include "scheduler/placement/placement.h"
#include "scheduler/profile/cost_model.h"

namespace ballast::scheduler {

/// Whether a side computes its own share while it waits for the other's (a hop is latency), or not.
enum class HopModel { kOverlapped, kBlocking };

struct StepOptions {
    StepShape shape = {};
    HopModel hops = HopModel::kOverlapped;
    Locality locality = Locality::kUniform;
    /// As programs do that copy a matrix when its turn has come and then compute it.
    bool serial_copies = false;
};

/// Decode's time is the mean of so many steps in a row, after a first that starts with an empty
/// ring: the lane may do better in one step at the expense of the next.
constexpr int kMeasuredSteps = 4;

/// When the residual is usable on each side, in seconds.
struct ChainState {
    double device = 0.0;
    double cpu = 0.0;
};

/// One way a group may turn out: seconds of each side, 0 where it takes no part.
struct Outcome {
    double probability = 1.0;
    double device = 0.0;
    double cpu = 0.0;
    bool on_device = false;
    bool on_cpu = false;
};

/// What one group costs under one division.
struct ShareCost {
    Outcome first = {};                // the only one, unless experts may miss
    std::vector<Outcome> others = {};  // with their probabilities
    double streamed_bytes = 0.0;
    double streamed_seconds = 0.0;  // of the device's, those it spends on what streams
    double cpu_seconds = 0.0;       // expected
    double lane_bps = 0.0;          // bytes a second that the link has left while the CPU works
};

/// One phase of one model on one machine. Borrows the catalog.
class StepModel {
  public:
    StepModel(const TensorCatalog& catalog, const CostModel& costs, const StepOptions& options);

    const TensorCatalog& catalog() const { return *catalog_; }
    const StepOptions& options() const { return options_; }
    bool unified() const { return unified_; }
    double hop_seconds() const { return hop_; }
    double link_bps() const { return link_bps_; }

    /// Groups that differ in their layer only are of one type; numbered in order of use.
    std::span<const int> types() const { return types_; }
    int n_types() const { return n_types_; }

    ShareCost cost(const TensorGroup& group, const GroupPlacement& placed) const;

    /// Of the link's time: what the share copies, and what its work on the CPU takes from the link.
    /// 0 on unified memory.
    double link_seconds(const ShareCost& cost) const;

    /// The state after the group, if what streams is there in time.
    ChainState advance(const ShareCost& cost, ChainState before) const;

    /// Seconds of one step: in decode the mean of the second to the fifth in a row.
    double seconds(const Placement& placement) const;
    double seconds(std::span<const ShareCost* const> costs) const;

  private:
    void find_types();
    ShareCost dense_cost(const TensorGroup& group, const GroupPlacement& placed) const;
    ShareCost decode_experts_cost(const TensorGroup& group, const GroupPlacement& placed) const;
    ShareCost prefill_experts_cost(const TensorGroup& group, const GroupPlacement& placed) const;
    /// When both sides have done their shares if nothing has to be waited for.
    ChainState ends(const Outcome& outcome, ChainState start) const;
    ChainState starts(const Outcome& outcome, ChainState before) const;
    ChainState after(const Outcome& outcome, ChainState before, ChainState end) const;
    double lane_bps(double cpu_bytes, double cpu_seconds) const;

    const TensorCatalog* catalog_;
    CostModel costs_;
    StepOptions options_;
    std::vector<int> types_;  // by group
    int n_types_ = 0;
    bool unified_ = false;
    double hop_ = 0.0;
    double link_bps_ = 0.0;
    double dram_bps_ = 0.0;
    double shared_pace_ = 1.0;  // of each side while both compute on one memory
    double expert_factor_ = 1.0;
};

}  // namespace ballast::scheduler
