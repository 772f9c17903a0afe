// SPDX-License-Identifier: MIT
// A plan against everything that is known without the planner: the reference step's seconds, the
// bounds, memory, and what the other policies give.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/placement/planner.h"
#include "tests/scheduler/reference/instances.h"

namespace ballast::test {

/// The instance as the planner's question. Borrows the instance.
scheduler::PlanRequest request_of(const Instance& instance);
/// The same for decode alone.
scheduler::PlanRequest decode_request_of(const Instance& instance);

struct PlanQuality {
    std::string name = {};  // of the instance
    bool experts = false;
    bool unified = false;
    /// By the reference step, in seconds; the value is the request's mix of both.
    double decode = 0.0;
    double prefill = 0.0;
    double value = 0.0;
    // Below which no plan is, as the planner says.
    double decode_bound = 0.0;
    double prefill_bound = 0.0;
    double mix_bound = 0.0;
    double best_policy = 0.0;              // the least value of the other policies' plans
    double seconds = 0.0;                  // of planning
    std::vector<std::string> faults = {};  // broken promises, in words

    double gap() const { return value / mix_bound - 1.0; }
};

/// Plans and checks every promise of PlanResult.
PlanQuality plan_quality(const Instance& instance, const scheduler::PlanRequest& request);

/// The least value that at least this share of the values does not exceed. Precondition: any.
double quantile(std::vector<double> values, double share);

}  // namespace ballast::test
