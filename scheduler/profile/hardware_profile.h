// SPDX-License-Identifier: MIT
// The rates of one machine: all that the scheduler knows of hardware.
#pragma once

#include <string>
#include <vector>

namespace ballast::scheduler {

/// What the CPU's kernels reach on weights of one type, cold and where they lie.
struct OpRate {
    std::string op = {};    // "linear"
    std::string type = {};  // as GGUF tools print it: "Q4_K"
    int tokens = 0;         // rows of activations at once
    double cpu_gbps = 0.0;  // bytes of weights, each counted once
    double cpu_gflops = 0.0;
    bool operator==(const OpRate&) const = default;
};

/// Plain data. GB are 1e9 bytes. README.md has the meaning of each figure; every rate is one that
/// reading weights reaches, not a data sheet's.
struct HardwareProfile {
    std::string name = {};
    std::string description = {};
    std::string source = {};  // measured, or assumed from what
    /// Whether there is a device beside the CPU. If not, its figures and the link's are 0, memory
    /// is not unified, and everything runs on the CPU.
    bool has_device = true;
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

    // Of measured profiles only.
    double cpu_read_one_thread_gbps = 0.0;  // 0: not measured, as below
    double copy_gbps = 0.0;                 // memcpy by one thread, bytes copied
    double link_staged_gbps = 0.0;          // host to device out of pages that are not pinned
    std::vector<OpRate> ops = {};
    std::string key = {};          // of the hardware it was measured on; "": none
    std::string measured_at = {};  // "2026-01-31", UTC
    bool operator==(const HardwareProfile&) const = default;
};

}  // namespace ballast::scheduler
