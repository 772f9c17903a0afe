// SPDX-License-Identifier: MIT
// What `plan` and `simulate` are asked: a model, a machine, and how both are used.
#pragma once

#include <memory>

#include "config/environment.h"
#include "engine/base/result.h"
#include "scheduler/placement/plan_answer.h"
#include "server/cli/invocation.h"

namespace ballast::cli {

/// The question, and the catalog it borrows.
struct AskedPlan {
    std::unique_ptr<const scheduler::TensorCatalog> catalog;
    scheduler::PlanQuestion question = {};
};

/// Errors name the option, the file or the name that is wrong, and what would be right.
Result<AskedPlan> ask_plan(const PlanArgs& args, const config::Environment& environment);

}  // namespace ballast::cli
