// SPDX-License-Identifier: MIT
// How commands speak: results on stdout, failures as one line on stderr.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace ballast::cli {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

/// Prints "ballast: MESSAGE" on stderr as one line and returns the exit code given.
int report(const Error& error, int exit_code = kExitFailure);

/// The text with control characters (which could steer a terminal) as \xNN, cut after
/// `bytes_max` bytes with "…". For texts out of files.
std::string printable(std::string_view text, std::size_t bytes_max);

/// "98.4 MB".
std::string format_bytes(std::uint64_t bytes);

}  // namespace ballast::cli
