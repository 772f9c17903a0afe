// SPDX-License-Identifier: MIT
// Model shapes as JSON: the shipped ones, which are compiled in, and a user's own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "scheduler/profile/model_shape.h"

namespace ballast::scheduler {

/// Reads one shape (README.md has the format). Errors: kInvalidRequest with one sentence that
/// begins with `origin` and names the key.
Result<ModelShape> parse_model(std::string_view text, const std::string& origin);

/// The names of the shipped shapes, sorted.
std::vector<std::string> stored_model_names();
/// A shipped shape. kNotFound naming the nearest ones.
Result<ModelShape> stored_model(const std::string& name);

}  // namespace ballast::scheduler
