// SPDX-License-Identifier: MIT
// The best division of a short chain when each group has a few given ways to be placed: the least
// decode time that fits into the budget, found without any of the planner's ideas.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/scheduler/reference/step_time.h"

namespace ballast::test {

struct ExactProblem {
    const scheduler::TensorCatalog& catalog;
    const scheduler::HardwareProfile& hardware;
    std::uint64_t budget_bytes = 0;
    scheduler::KvReserve reserve = {};
    /// One list a group, none empty; nothing streams in either phase.
    std::vector<std::vector<scheduler::GroupPlacement>> options = {};
    ReferenceStep step = {};  // decode
};

struct ExactResult {
    bool found = false;  // false: nothing fits
    double seconds = 0.0;
    double bytes = 0.0;
    scheduler::Placement placement = {};
    std::uint64_t states = 0;  // looked at, as a measure of the work
};

/// Tries every combination: for at most some millions of them.
ExactResult search_all(const ExactProblem& problem);

/// Goes through the chain keeping, after each group, the states to which no other is superior.
/// Exact to within 1e-12 s.
ExactResult search_labels(const ExactProblem& problem);

}  // namespace ballast::test
