// SPDX-License-Identifier: MIT
// How the device's memory is counted, by everyone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ballast::scheduler {

struct DeviceMemory {
    std::uint64_t total_bytes = 0;     // 0: not known
    std::uint64_t headroom_bytes = 0;  // left free for whoever comes next
    std::uint64_t cap_bytes = 0;       // --vram-budget: most bytes of our own

    /// For us, beside what others take.
    std::uint64_t room(std::uint64_t others_bytes) const {
        const std::uint64_t taken = others_bytes + headroom_bytes;
        const std::uint64_t free = total_bytes > taken ? total_bytes - taken : 0;
        return total_bytes == 0 ? cap_bytes : std::min(free, cap_bytes);
    }
};

}  // namespace ballast::scheduler
