// SPDX-License-Identifier: MIT
// Four times, and a quarter.
#include "engine/runtime/assumed_hardware.h"

namespace ballast::runtime {

scheduler::HardwareProfile host_device_hardware(
    const std::optional<scheduler::HardwareProfile>& cpu, std::uint64_t memory_bytes) {
    // Without a measurement: two channels of slow DDR4 and a few cores.
    scheduler::HardwareProfile hardware =
        cpu.value_or(scheduler::HardwareProfile{.name = "assumed",
                                                .source = "assumed, nothing was measured",
                                                .cpu_read_gbps = 20.0,
                                                .dram_gbps = 25.0,
                                                .cpu_tflops = 0.5,
                                                .ram_gb = 16.0});
    constexpr double kFaster = 4.0;
    hardware.has_device = true;
    hardware.unified_memory = false;
    hardware.device_read_gbps = kFaster * hardware.cpu_read_gbps;
    hardware.device_tflops = kFaster * hardware.cpu_tflops;
    hardware.link_gbps = hardware.cpu_read_gbps / kFaster;
    hardware.device_memory_gb = static_cast<double>(memory_bytes) / 1e9;
    hardware.hop_us = 20.0;
    hardware.expert_prefill_factor = 1.0;
    return hardware;
}

}  // namespace ballast::runtime
