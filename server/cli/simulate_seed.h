// SPDX-License-Identifier: MIT
// `ballast simulate --seed`: one run of those that the tests make a thousand of.
#pragma once

#include <cstdint>

#include "engine/base/result.h"

namespace ballast::cli {

/// Prints what was drawn, what came of it, and whatever did not hold that always must; then it is
/// kInternal.
Status simulate_seed(std::uint64_t seed, bool json);

}  // namespace ballast::cli
