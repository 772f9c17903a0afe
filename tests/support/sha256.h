// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4), to compare large arrays with a reference by their digest.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ballast::test {

/// The digest in lower-case hexadecimal.
std::string sha256(std::span<const std::byte> bytes);

}  // namespace ballast::test
