// SPDX-License-Identifier: MIT
// A small linear program, solved exactly by the simplex method (Dantzig 1947).
#pragma once

#include <vector>

namespace ballast::scheduler {

/// Maximise gain · x subject to rows · x ≤ limits and x ≥ 0, where no limit is negative, so that
/// x = 0 is where the search starts.
struct LinearProgram {
    std::vector<double> gain = {};               // [n]
    std::vector<std::vector<double>> rows = {};  // [m][n]
    std::vector<double> limits = {};             // [m], at least 0
};

/// The largest gain; infinity if there is no limit to it. Bland's rule keeps it from cycling; meant
/// for tens of variables.
double maximum(const LinearProgram& program);

}  // namespace ballast::scheduler
