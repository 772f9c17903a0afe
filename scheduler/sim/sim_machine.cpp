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

void SimMachine::set_conditions(const SimConditions& conditions) {
    conditions_ = conditions;
    share_memory();
}

void SimMachine::share_memory() {
    const HardwareProfile& h = hardware_;
    if (conditions_.stalled) {
        device_.set_rate(0.0);
        cpu_.set_rate(0.0);
        link_.set_rate(0.0);
        return;
    }
    if (h.unified_memory) {
        const bool both = device_.busy() && cpu_.busy();
        const double wanted =
            h.device_read_gbps * conditions_.device + h.cpu_read_gbps * conditions_.cpu;
        const double pace = both ? std::min(1.0, h.dram_gbps / wanted) : 1.0;
        device_.set_rate(conditions_.device * pace);
        cpu_.set_rate(conditions_.cpu * pace);
        return;
    }
    const double beside =
        conditions_.uploading ? cpu_pace_beside_upload(h, conditions_.shares()) : 1.0;
    cpu_.set_rate(conditions_.cpu * beside);
    const double link = h.link_gbps * conditions_.link * kGiga;
    const double left = h.dram_gbps * kGiga - cpu_.intensity() * cpu_.rate();
    const double of_link = cpu_.busy() ? std::clamp(left, 0.0, link) : link;
    link_.set_rate(conditions_.uploading ? 0.0 : of_link);
    device_.set_rate(device_rate(of_link));
}

double SimMachine::device_rate(double link_bps) const {
    if (conditions_.spilled <= 0.0) {
        return conditions_.device;
    }
    const double full = hardware_.device_read_gbps * kGiga;
    const double device = full * conditions_.device;
    const double link = std::clamp(link_bps, std::min(device, kGiga), device);
    const double seconds = (1.0 - conditions_.spilled) / device + conditions_.spilled / link;
    return 1.0 / (seconds * full);
}

}  // namespace ballast::scheduler
