// SPDX-License-Identifier: MIT
// Decompresses DEFLATE (RFC 1951), as members of .npz files need it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace ballast::test {

/// The decompressed bytes; an error if there are not exactly size_bytes of them.
Result<std::string> inflate(std::string_view deflated, std::size_t size_bytes);

}  // namespace ballast::test
