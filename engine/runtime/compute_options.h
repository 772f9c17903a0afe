// SPDX-License-Identifier: MIT
// What the engine's options come to for one model on this machine.
#pragma once

#include <string>

#include "engine/base/result.h"
#include "engine/model/model.h"
#include "engine/runtime/options.h"
#include "engine/runtime/profile_file.h"

namespace ballast::runtime {

/// Threads that compute under these options. kInvalidRequest if the option is out of range.
Result<int> compute_threads(const EngineOptions& options);

/// What is stored of this machine as these options use it, or why there is nothing. Errors:
/// kInvalidRequest naming the option.
Result<StoredProfile> stored_profile(const EngineOptions& options, const std::string& folder);

/// Tokens one request may use under these options: the option, else the model's own, 8192 at most.
/// kInvalidRequest if the option exceeds what the model was trained for.
Result<int> context_tokens(const model::Model& model, const EngineOptions& options);

}  // namespace ballast::runtime
