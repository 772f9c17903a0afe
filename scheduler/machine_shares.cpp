// SPDX-License-Identifier: MIT
// Rates times shares.
#include "scheduler/machine_shares.h"

#include <algorithm>
#include <cmath>

namespace ballast::scheduler {

namespace {

// The copies and the CPU do not want the memory at the same moments (research).
constexpr double kUploadOverlap = 0.7;

double rounded(double share) {
    return std::max(0.01, std::round(100.0 * share) / 100.0);
}

}  // namespace

MachineShares rounded(MachineShares shares) {
    shares.device = rounded(shares.device);
    shares.link = rounded(shares.link);
    shares.cpu = rounded(shares.cpu);
    return shares;
}

double cpu_pace_beside_upload(const HardwareProfile& hardware, const MachineShares& shares) {
    const double wanted = hardware.cpu_read_gbps * shares.cpu;
    if (hardware.unified_memory || wanted <= 0.0) {
        return 1.0;
    }
    const double left = hardware.dram_gbps - hardware.link_gbps * shares.link;
    return 1.0 - kUploadOverlap * std::clamp(1.0 - left / wanted, 0.0, 1.0);
}

HardwareProfile scaled(HardwareProfile hardware, const MachineShares& shares) {
    const double beside = shares.uploading ? cpu_pace_beside_upload(hardware, shares) : 1.0;
    hardware.device_read_gbps *= shares.device;
    hardware.device_tflops *= shares.device;
    hardware.link_gbps *= shares.link;
    hardware.cpu_read_gbps *= shares.cpu;
    hardware.cpu_tflops *= shares.cpu;
    hardware.cpu_read_gbps *= beside;
    hardware.cpu_tflops *= beside;
    return hardware;
}

}  // namespace ballast::scheduler
