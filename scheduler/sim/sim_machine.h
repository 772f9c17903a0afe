// SPDX-License-Identifier: MIT
// A machine that exists only as a profile: device, CPU and link, and one memory behind them.
#pragma once

#include <tuple>

#include "scheduler/machine_shares.h"
#include "scheduler/sim/sim_lane.h"

namespace ballast::scheduler {

/// What others leave of the machine, from 0 to 1 each, and what goes on beside a step.
struct SimConditions {
    double device = 1.0;
    double link = 1.0;
    double cpu = 1.0;
    /// Weights are copied to the device at the link's full pace, beside what the lanes do. The CPU
    /// is slower by the DRAM that this takes; nothing else crosses the link meanwhile.
    bool uploading = false;
    bool stalled = false;  // nothing moves
    /// Of what the device reads, the share that a driver has moved to RAM: it is read over the
    /// link, as fast as the CPU leaves the memory.
    double spilled = 0.0;

    /// Of the device, the link and the CPU.
    MachineShares shares() const { return {.device = device, .link = link, .cpu = cpu}; }

    friend bool operator==(const SimConditions&, const SimConditions&) = default;
    friend bool operator<(const SimConditions& a, const SimConditions& b) {
        const auto key = [](const SimConditions& of) {
            return std::tie(of.device, of.link, of.cpu, of.uploading, of.stalled, of.spilled);
        };
        return key(a) < key(b);
    }
};

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
    /// From now on, also in the middle of a job.
    void set_conditions(const SimConditions& conditions);

  private:
    void share_memory();
    double device_rate(double link_bps) const;

    EventQueue& events_;
    HardwareProfile hardware_;
    SimConditions conditions_;
    SimLane device_;
    SimLane cpu_;
    SimLane link_;
};

}  // namespace ballast::scheduler
