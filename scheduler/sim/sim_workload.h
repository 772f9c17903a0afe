// SPDX-License-Identifier: MIT
// A model's steps on a simulated machine: each group's shares begin when the residual is usable on
// their side, tiles cross the link through the ring, and the next step begins when the last ends.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "scheduler/placement/placement.h"
#include "scheduler/placement/step_model.h"
#include "scheduler/sim/share_work.h"
#include "scheduler/sim/sim_machine.h"

namespace ballast::scheduler {

/// Steps of one kind in a row. Borrows machine, catalog and placement, and must stay where it is
/// until the events of its machine have run.
class SimWorkload {
  public:
    struct Options {
        StepShape shape = {};
        HopModel hops = HopModel::kOverlapped;
        Locality locality = Locality::kUniform;
        /// As programs do that copy a matrix when its turn has come and then compute it: the device
        /// waits for the link and the link for the device.
        bool serial_copies = false;
        int n_steps = 1;
        std::uint64_t routing_seed = 1;
    };

    SimWorkload(SimMachine& machine,
                const TensorCatalog& catalog,
                const Placement& placement,
                const Options& options);
    SimWorkload(const SimWorkload&) = delete;
    SimWorkload& operator=(const SimWorkload&) = delete;

    /// Begins now; `done` is called when the last step has ended.
    void start(EventQueue::Action done);
    /// From the next group on. It streams what the one before it does, or nothing: then what has
    /// not crossed yet, of the running group too, is the CPU's.
    void replace(const Placement& placement);
    /// When each step ended, as many as have.
    const std::vector<Nanoseconds>& ends() const { return ends_; }

  private:
    /// The group that is being computed.
    struct Current {
        ShareWork work = {};
        Side owner = Side::kDevice;  // where the residual was usable first
        std::array<std::optional<Nanoseconds>, 2> ended = {};  // each side's share
        std::size_t n_tiles_left = 0;
    };
    static std::size_t index(Side side) { return static_cast<std::size_t>(side); }

    void list_tiles();
    void begin_step();
    void end_step();
    /// The residual before group `version` of this step is usable there from a time on.
    void will_be_usable(std::size_t version, Side side, Nanoseconds time);
    void usable(std::size_t version, Side side);
    void enter_group(std::size_t version, Side side);
    void begin_share(Side side);
    void compute_tiles();
    void compute_rest_on_cpu();
    void finish_share(Side side);
    void send_tiles();

    bool takes_part(Side side) const {
        return side == Side::kDevice ? current_.work.on_device : current_.work.on_cpu;
    }
    bool both() const { return current_.work.on_device && current_.work.on_cpu; }

    SimMachine& machine_;
    const TensorCatalog& catalog_;
    const Placement* placement_;
    const Options options_;
    Nanoseconds hop_{0};
    Rng routing_;
    EventQueue::Action done_;

    int step_ = 0;               // from 1
    std::size_t n_entered_ = 0;  // groups of this step; the last of them is the current one
    Current current_;
    std::vector<Nanoseconds> ends_;

    struct Tile {
        double bytes = 0.0;
        int group = 0;
    };
    /// Of one step: its tiles in order, and how many each group has.
    std::vector<Tile> tiles_;
    std::vector<std::size_t> tiles_of_group_;
    // Counted over all steps.
    std::size_t n_allowed_ = 0;
    std::size_t n_sent_ = 0;
    std::size_t n_arrived_ = 0;
    std::size_t n_read_ = 0;
    bool waits_for_tile_ = false;
    bool has_stopped_ = false;  // streams, for good
};

}  // namespace ballast::scheduler
