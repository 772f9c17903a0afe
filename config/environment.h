// SPDX-License-Identifier: MIT
// The process environment as a value, read once, so that everything behind it can be tested with
// another one.
#pragma once

#include <map>
#include <string>

namespace ballast::config {

using Environment = std::map<std::string, std::string, std::less<>>;

/// A copy of the process environment. Call before threads start.
Environment read_environment();

/// The variable's value, or "" where it is not set.
std::string variable(const Environment& environment, const std::string& name);

}  // namespace ballast::config
