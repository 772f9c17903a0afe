// SPDX-License-Identifier: MIT
// The rates of one machine: all that the scheduler knows of hardware.
#pragma once

#include <string>

namespace ballast::scheduler {

/// Plain data. GB are 1e9 bytes. README.md has the meaning of each figure; every rate is one that
/// reading weights reaches, not a data sheet's.
struct HardwareProfile {
    std::string name = {};
    std::string description = {};
    std::string source = {};  // measured, or assumed from what
    bool unified_memory = false;
    double device_read_gbps = 0.0;
    double cpu_read_gbps = 0.0;
    double link_gbps = 0.0;  // 0 where memory is unified
    double dram_gbps = 0.0;  // to CPU and copies (unified: and device) together
    double device_memory_gb = 0.0;
    double hop_us = 0.0;
    double device_tflops = 0.0;
    double cpu_tflops = 0.0;
    double expert_prefill_factor = 1.0;
    double ram_gb = 0.0;
};

}  // namespace ballast::scheduler
