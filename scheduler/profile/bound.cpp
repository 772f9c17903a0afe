// SPDX-License-Identifier: MIT
// The bound's linear program, solved in closed form.
#include "scheduler/profile/bound.h"

#include <algorithm>

#include "engine/base/check.h"

namespace ballast::scheduler {

namespace {

constexpr double kGflopPerTflop = 1000.0;

/// GB/s at which a side gets through its share: it reads and computes at the same time, and each
/// byte brings the same arithmetic.
double pace(double read_gbps, double tflops, const StepDemand& demand) {
    if (demand.tflop <= 0.0) {
        return read_gbps;
    }
    const double gflop_per_gb = demand.tflop * kGflopPerTflop / demand.read_gb;
    return std::min(read_gbps, tflops * kGflopPerTflop / gflop_per_gb);
}

}  // namespace

double lower_bound_seconds(const HardwareProfile& hardware, const StepDemand& demand) {
    BALLAST_CHECK(demand.read_gb >= 0.0 && demand.resident_gb >= 0.0 && demand.tflop >= 0.0);
    if (demand.read_gb == 0.0) {
        return 0.0;
    }
    const double cpu = pace(hardware.cpu_read_gbps, hardware.cpu_tflops, demand);
    BALLAST_CHECK(cpu > 0.0 && hardware.dram_gbps > 0.0);
    if (!hardware.has_device) {
        return demand.read_gb / std::min(hardware.dram_gbps, cpu);
    }
    const double device = pace(hardware.device_read_gbps, hardware.device_tflops, demand);
    BALLAST_CHECK(device > 0.0);
    if (hardware.unified_memory) {
        return demand.read_gb / std::min(hardware.dram_gbps, device + cpu);
    }
    const double from_dram = std::min(hardware.dram_gbps, cpu + hardware.link_gbps);
    const double not_resident = std::max(demand.read_gb - demand.resident_gb, 0.0);
    return std::max({demand.read_gb / (device + cpu),
                     demand.read_gb / (device + from_dram),
                     not_resident / from_dram});
}

}  // namespace ballast::scheduler
