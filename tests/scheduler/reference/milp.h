// SPDX-License-Identifier: MIT
// Chains as mixed-integer programs for milp.py: written as JSON, solved by Python.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/scheduler/reference/exact_search.h"

namespace ballast::test {

/// The problem for milp.py. Its options may stream, in decode. Preconditions (checked): no experts,
/// no unified memory (milp.py says why; what two sides do to each other on one memory is no more
/// linear).
nlohmann::json milp_problem(const ExactProblem& problem, double time_limit_seconds);

/// Ways to place each group: what streams and what the CPU does on a ladder in 64ths (0 to 6, 8,
/// 10, 12, then every 4), each as the nearest number of whole parts; the rest is resident.
std::vector<std::vector<scheduler::GroupPlacement>> ladder_options(
    const scheduler::TensorCatalog& catalog);

struct MilpAnswer {
    std::string status = {};  // optimal, limit, infeasible, or what the solver says
    bool found = false;
    double objective_seconds = 0.0;
    double bound_seconds = 0.0;  // no choice is faster, as the program sees it; 0: unknown
    scheduler::Placement placement = {};
};

/// Whether there is a Python that has what milp.py needs: BALLAST_PYTHON, else build/venv's.
bool milp_available();

/// Solves them, one after the other. Precondition: milp_available().
std::vector<MilpAnswer> solve_milp(const std::vector<ExactProblem>& problems,
                                   double time_limit_seconds);

}  // namespace ballast::test
