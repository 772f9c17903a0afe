// SPDX-License-Identifier: MIT
// What the engine follows: targets and rules, immutable, swapped between steps. Facts (what is
// where by now) are the engine's Residency.
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/placement/placement.h"

namespace ballast::scheduler {

/// What a plan promises, in seconds and shares; a forecast, not a measurement.
struct Forecast {
    double decode_seconds = 0.0;      // one token at the mean depth
    double prefill_seconds = 0.0;     // the prefill tokens below
    double cpu_decode_seconds = 0.0;  // a token's on the CPU alone
    int depth = 0;
    int prefill_tokens = 0;
    double decode_bound_seconds = 0.0;  // T_LB: what the hardware allows (bound.h)
    double prefill_bound_seconds = 0.0;
    /// How much slower than the best possible plan it can be at most, of the observed mix; 0.02:
    /// 2%.
    double gap = 0.0;

    double limit_fraction() const {
        return decode_seconds > 0.0 ? decode_bound_seconds / decode_seconds : 0.0;
    }
};

/// Immutable; shared by the scheduler, the engine and whoever reports it.
struct Plan {
    std::uint64_t version = 0;
    std::string reason = {};  // one sentence: why it was made
    Placement placement = {};
    Forecast forecast = {};
};

}  // namespace ballast::scheduler
