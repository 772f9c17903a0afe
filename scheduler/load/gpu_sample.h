// SPDX-License-Identifier: MIT
// What the rest of the computer wants of device, link and CPU at one moment.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/clock.h"

namespace ballast::scheduler {

enum class LoadEvent { kNone, kSuspend, kResume, kDeviceLost };

/// Taken at once, by whoever can see it. Shares are from 0 to 1, of what there is.
struct LoadSample {
    Nanoseconds time{0};                   // of the clock that the scheduler runs on
    std::uint64_t device_total_bytes = 0;  // 0: not known
    std::uint64_t others_bytes = 0;        // of it, used by other programs
    double device_busy = 0.0;              // with others' work
    double link_busy = 0.0;                // likewise
    double cpu_psi = 0.0;                  // share of the time in which somebody waited for a CPU
    bool on_battery = false;
    LoadEvent event = LoadEvent::kNone;
    std::string process = {};  // whose, for people; "" if it cannot be told

    friend bool operator==(const LoadSample&, const LoadSample&) = default;
};

}  // namespace ballast::scheduler
