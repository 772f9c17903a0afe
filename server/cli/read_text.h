// SPDX-License-Identifier: MIT
// Reads whole texts of bounded size, and says which part of a path cannot be passed.
#pragma once

#include <cstddef>
#include <string>

#include "engine/base/result.h"

namespace ballast::cli {

/// Errors: kNotFound, kIo (also what is not a regular file), kTooLarge; naming the path.
Result<std::string> read_text_file(const std::string& path, std::size_t bytes_max);

Result<std::string> read_standard_input(std::size_t bytes_max);

/// Why this process cannot read the regular file at the path: a sentence that names the first
/// folder or the file where it ends. "" if it can.
std::string explain_unreadable(const std::string& path);

}  // namespace ballast::cli
