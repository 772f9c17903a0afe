// SPDX-License-Identifier: MIT
// A plan for people and for programs.
#pragma once

#include <string>

#include "scheduler/placement/plan_answer.h"

namespace ballast::cli {

/// One screen.
void print_plan(const scheduler::PlanQuestion& question, const scheduler::PlanAnswer& answer);

/// One JSON object; docs/scheduling.md lists its keys. Times are seconds, sizes bytes.
std::string plan_json(const scheduler::PlanQuestion& question, const scheduler::PlanAnswer& answer);

}  // namespace ballast::cli
