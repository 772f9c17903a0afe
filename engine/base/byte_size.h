// SPDX-License-Identifier: MIT
// Sizes as people write them: 40MiB, 1.5 GB, 4096.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace ballast {

/// Reads a number with at most nine decimals and a unit: B, KiB, MiB, GiB, TiB (powers of 1024) or
/// KB, MB, GB, TB (powers of 1000), in any case; without a unit it is bytes. A fraction of a byte
/// is dropped. kInvalidRequest with a phrase that says what is accepted and what was given.
Result<std::uint64_t> parse_byte_size(std::string_view text);

/// A whole number of the largest unit that divides it, which reads back as the same number:
/// "40MiB", "1500MB", "4097".
std::string format_byte_size(std::uint64_t bytes);

}  // namespace ballast
