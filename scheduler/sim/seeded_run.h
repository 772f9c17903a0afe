// SPDX-License-Identifier: MIT
// Runs drawn from a seed: requests on a small machine, first with every kind of fault, then
// without any, with every invariant checked at every event. The same seed is the same run.
#pragma once

#include <memory>

#include "scheduler/sim/invariants.h"
#include "scheduler/sim/mutant_world.h"
#include "scheduler/sim/seeded_options.h"

namespace ballast::scheduler {

struct SeededResult {
    std::string options = {};  // one line
    std::vector<Violation> violations = {};
    std::string log = {};  // one line an event
    std::uint64_t log_hash = 0;
    int n_requests = 0;
    int n_steps = 0;
    int n_steps_redone = 0;
    int n_uploads = 0;
    int moves_most = 0;
    double ended_seconds = 0.0;
    double recovered_share = 0.0;  // of the ideal rate, at the end

    /// "seed 17: …", a line for each violation; "" if there is none.
    std::string failure(std::uint64_t seed) const;
};

SeededResult run_seed(std::uint64_t seed, Mutation mutation = Mutation::kNone);

}  // namespace ballast::scheduler
