// SPDX-License-Identifier: MIT
// Who gets how much of the memory follows anew whenever a lane begins or ends a job.
#include "scheduler/sim/sim_machine.h"

#include <algorithm>

namespace ballast::scheduler {

namespace {

constexpr double kGiga = 1e9;

}  // namespace

SimMachine::SimMachine(EventQueue& events, const HardwareProfile& hardware)
    : events_(events),
      hardware_(hardware),
      device_(events, 1.0),
      cpu_(events, 1.0),
      link_(events, hardware.link_gbps * kGiga) {
    device_.on_change([this] { share_memory(); });
    cpu_.on_change([this] { share_memory(); });
}

void SimMachine::share_memory() {
    const HardwareProfile& h = hardware_;
    if (h.unified_memory) {
        const bool both = device_.busy() && cpu_.busy();
        const double wanted = h.device_read_gbps + h.cpu_read_gbps;
        const double pace = both ? std::min(1.0, h.dram_gbps / wanted) : 1.0;
        device_.set_rate(pace);
        cpu_.set_rate(pace);
        return;
    }
    const double link = h.link_gbps * kGiga;
    const double left = h.dram_gbps * kGiga - cpu_.intensity();
    link_.set_rate(cpu_.busy() ? std::clamp(left, 0.0, link) : link);
}

}  // namespace ballast::scheduler
