// SPDX-License-Identifier: MIT
// "Did you mean …?": finds the name that a mistyped one is closest to.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ballast::config {

/// The candidate that is at most a third of the name's length (and at least one, at most three)
/// edits away, the closest first; "" if none is. An edit adds, drops or changes a character, or
/// swaps two neighbours.
std::string nearest_name(std::span<const std::string> candidates, std::string_view name);

/// "; did you mean 'port'?" or "." where nothing is near: the end of a sentence.
std::string suggestion(std::span<const std::string> candidates, std::string_view name);

}  // namespace ballast::config
