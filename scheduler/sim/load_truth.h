// SPDX-License-Identifier: MIT
// What a trace of samples makes true: the machine that is left to us from each moment on. What the
// scheduler sees of it is the monitor's affair (sim_monitor.h).
#pragma once

#include <span>
#include <vector>

#include "scheduler/load/device_memory.h"
#include "scheduler/load/gpu_sample.h"
#include "scheduler/sim/sim_machine.h"

namespace ballast::scheduler {

/// Of a profile, whose memory is net of the headroom. The trace's total counts where it names one:
/// max(512 MiB, 8%) of it is headroom.
DeviceMemory device_memory(std::span<const LoadSample> trace,
                           double cap_bytes,
                           double profile_bytes);

/// From `time` until the next one.
struct LoadTruth {
    Nanoseconds time{0};
    std::uint64_t room_bytes = 0;  // for us
    SimConditions conditions = {};
    bool suspended = false;
    bool device_works = true;
    int n_wipes = 0;  // how often what was in device memory has been lost

    bool usable() const { return device_works && !suspended; }
};

/// A driver's reset of a lost device takes so long.
constexpr Nanoseconds kResetTime = std::chrono::seconds(2);

/// The first at 0. Samples in order of time.
std::vector<LoadTruth> load_truths(std::span<const LoadSample> trace, const DeviceMemory& memory);

}  // namespace ballast::scheduler
