// SPDX-License-Identifier: MIT
// Traces of what other programs do to a machine, made from a few figures.
#pragma once

#include "scheduler/sim/sim_session.h"

namespace ballast::scheduler {

/// What a game takes while it runs.
struct LoadPulse {
    std::uint64_t bytes = 4ULL << 30U;
    double device_busy = 0.7;
    double link_busy = 0.3;
};

/// "game", "browser", "compile", "compositor", "battery", "suspend" and "device_lost".
std::vector<LoadTrace> load_traces();

/// So many pulses a minute, each so long, for as long.
LoadTrace pulse_trace(int per_minute,
                      Nanoseconds length,
                      Nanoseconds duration,
                      const LoadPulse& pulse = {});
/// Half of each period is a pulse; the second half.
LoadTrace square_trace(Nanoseconds period, Nanoseconds duration, const LoadPulse& pulse = {});
/// The device's share changes every 8 s among 1, 0.7, 0.5, 0.3 and 0.15; its memory stays ours.
LoadTrace busy_trace(std::uint64_t seed, Nanoseconds duration);

}  // namespace ballast::scheduler
