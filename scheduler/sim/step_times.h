// SPDX-License-Identifier: MIT
// How long one decode step of a placement takes under given conditions: simulated once where
// nothing changes, event by event where something does. Every figure is simulated.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "scheduler/sim/sim_workload.h"

namespace ballast::scheduler {

/// What is run, and where. Borrows the catalog.
struct StepSetup {
    const TensorCatalog* catalog = nullptr;
    HardwareProfile hardware = {};
    int depth = 0;
    HopModel hops = HopModel::kOverlapped;
    Locality locality = Locality::kUniform;
};

/// One step in which something changes. Times count from its beginning. Where weights stream, a
/// step under the first conditions runs before it, so that it meets the ring as it is found when
/// steps follow each other.
class StepReplay {
  public:
    StepReplay(const StepSetup& setup,
               const Placement& placement,
               const SimConditions& conditions,
               std::uint64_t routing_seed);

    /// Runs up to that time; whether the step has ended by then.
    bool run_until(Nanoseconds time);
    /// When it ended.
    Nanoseconds ended() const { return workload_.ends().back() - begin_; }
    void set_conditions(const SimConditions& conditions) { machine_.set_conditions(conditions); }
    /// For the groups that have not begun; with the same streams or none.
    void replace(const Placement& placement);

  private:
    Placement placement_;
    std::unique_ptr<const Placement> replaced_;
    EventQueue events_;
    SimMachine machine_;
    SimWorkload workload_;
    Nanoseconds begin_{0};
    bool done_ = false;
};

/// Remembers what it has simulated.
class StepTimes {
  public:
    explicit StepTimes(const StepSetup& setup) : setup_(setup) {}

    const StepSetup& setup() const { return setup_; }
    /// Of steps in a row, the mean: with experts that are drawn, of several.
    double seconds(const Placement& placement, const SimConditions& conditions);
    std::size_t n_simulated() const { return known_.size(); }

  private:
    struct Key {
        std::vector<int> placement = {};
        SimConditions conditions = {};
        friend bool operator<(const Key& a, const Key& b) {
            return std::tie(a.placement, a.conditions) < std::tie(b.placement, b.conditions);
        }
    };
    double simulate(const Placement& placement, const SimConditions& conditions) const;

    StepSetup setup_;
    std::map<Key, double> known_;
};

}  // namespace ballast::scheduler
