// SPDX-License-Identifier: MIT
// What the operating system says about memory and caches. Linux; elsewhere everything is unknown.
#pragma once

#include <cstdint>
#include <string>

namespace ballast {

/// Bytes; 0: unknown.
struct MemoryInfo {
    std::uint64_t total_bytes = 0;
    std::uint64_t available_bytes = 0;
};

/// Reads a file of the form of /proc/meminfo.
MemoryInfo read_memory_info(const std::string& file = "/proc/meminfo");

/// Bytes of the last-level caches of all processors together, each cache counted once; 0 if
/// unknown. The folder is of the form of /sys/devices/system/cpu.
std::uint64_t last_level_cache_bytes(const std::string& folder = "/sys/devices/system/cpu");

}  // namespace ballast
