// SPDX-License-Identifier: MIT
// `ballast simulate --load-trace`: what each rule of reaction makes of other programs' load.
#pragma once

#include "scheduler/placement/plan_answer.h"
#include "server/cli/invocation.h"

namespace ballast::cli {

/// Prints the table, or with --json all figures and the time line. Errors name the file, its line
/// and the remedy.
Status simulate_load(const SimulateArgs& args,
                     const scheduler::PlanQuestion& question,
                     const scheduler::PlanAnswer& answer);

}  // namespace ballast::cli
