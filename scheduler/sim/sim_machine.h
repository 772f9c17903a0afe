// SPDX-License-Identifier: MIT
// A machine that exists only as a profile: device, CPU and link, and one memory behind them.
#pragma once

#include "scheduler/profile/hardware_profile.h"
#include "scheduler/sim/sim_lane.h"

namespace ballast::scheduler {

/// The lanes of one simulation, whose events outlive it. Device and CPU count seconds at full pace,
/// the link counts bytes. While the CPU reads, the link gets what that leaves of DRAM; on unified
/// memory both sides slow down while both work.
class SimMachine {
  public:
    SimMachine(EventQueue& events, const HardwareProfile& hardware);
    SimMachine(const SimMachine&) = delete;
    SimMachine& operator=(const SimMachine&) = delete;

    EventQueue& events() { return events_; }
    const HardwareProfile& hardware() const { return hardware_; }
    SimLane& device() { return device_; }
    SimLane& cpu() { return cpu_; }
    SimLane& link() { return link_; }

  private:
    void share_memory();

    EventQueue& events_;
    HardwareProfile hardware_;
    SimLane device_;
    SimLane cpu_;
    SimLane link_;
};

}  // namespace ballast::scheduler
