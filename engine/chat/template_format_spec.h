// SPDX-License-Identifier: MIT
// One field of a format: width, alignment, precision, type; and numbers written by it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/chat/template_value.h"

namespace ballast::chat {

/// Widths and precisions beyond this are an error; no prompt needs them.
inline constexpr int kFieldMax = 4096;

struct FormatSpec {
    std::string fill = " ";
    char align = 0;
    char sign = '-';
    bool alternate = false;
    bool thousands = false;
    int width = 0;
    int precision = -1;
    char type = 0;
};

/// Pads to the width; default_align applies if the format names none.
std::string pad(const std::string& text, const FormatSpec& spec, char default_align);

Result<std::string> format_float(double value, const FormatSpec& spec);
Result<std::string> format_integer(Integer value, const FormatSpec& spec);

/// Whether a type letter asks for a floating-point number.
bool is_float_type(char type);

/// Reads digits at `at`; nothing if there are none.
Result<std::optional<int>> read_number(std::string_view text, std::size_t& at);

/// A number as printf writes it with %.*TYPE.
std::string printf_float(double value, char type, int precision, bool alternate);

}  // namespace ballast::chat
