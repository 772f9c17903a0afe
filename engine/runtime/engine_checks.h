// SPDX-License-Identifier: MIT
// What the engine refuses before it begins: options and jobs out of range.
#pragma once

#include "engine/base/result.h"
#include "engine/runtime/options.h"
#include "engine/runtime/ports.h"

namespace ballast::runtime {

/// kInvalidRequest naming the option. Those of compute and device are checked where they are used.
Status check_options(const EngineOptions& options);

/// kInvalidRequest if a token is none of the vocabulary or the job does not fit the context.
Status check_job(const Job& job, int vocabulary, int context);

}  // namespace ballast::runtime
