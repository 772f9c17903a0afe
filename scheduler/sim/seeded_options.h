// SPDX-License-Identifier: MIT
// What a seeded run is made of: a small machine, a small model, rules, requests, and a trace full
// of faults, all drawn from one number.
#pragma once

#include <string>
#include <vector>

#include "scheduler/placement/step_model.h"
#include "scheduler/profile/hardware_profile.h"
#include "scheduler/profile/model_shape.h"
#include "scheduler/sim/sim_session.h"

namespace ballast::scheduler {

/// Accepted at that time; a step makes one token of it.
struct SeededRequest {
    Nanoseconds at{0};
    int tokens = 0;
};

/// Plain data. In each run only some kinds of fault happen, so that rare ones meet each other.
struct SeededOptions {
    std::uint64_t seed = 0;
    HardwareProfile hardware = {};
    ModelShape shape = {};
    std::string quant = {};
    int context = 0;
    HopModel hops = HopModel::kOverlapped;
    Locality locality = Locality::kUniform;
    /// The samples have faults until `safety_end`, and so has how they are told; then nobody else
    /// wants anything, and the monitor is honest.
    SessionOptions session = {};
    Nanoseconds safety_end{0};
    std::vector<SeededRequest> requests = {};  // in order of time, all before the end of safety

    /// All of it that was drawn, in one line.
    std::string text() const;
};

SeededOptions draw_options(std::uint64_t seed);

}  // namespace ballast::scheduler
