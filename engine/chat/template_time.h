// SPDX-License-Identifier: MIT
// strftime for templates that write today's date.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace ballast::chat {

/// Formats a moment in UTC as Python's strftime does; a directive it does not know stays as it is.
Result<std::string> format_time(std::int64_t unix_seconds, std::string_view format);

}  // namespace ballast::chat
