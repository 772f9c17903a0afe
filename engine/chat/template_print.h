// SPDX-License-Identifier: MIT
// Values as text: Python's str() and repr(), and JSON as json.dumps writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/chat/template_value.h"
#include "engine/chat/template_values.h"

namespace ballast::chat {

/// Appends str(value). Undefined prints as nothing.
Status append_str(const Values& values, std::string& out, const Value& value);
Status append_repr(const Values& values, std::string& out, const Value& value);
Result<std::string> to_str(const Values& values, const Value& value);

std::string integer_text(Integer value);
/// The shortest text that reads back as the same number, in Python's layout.
std::string float_repr(double value);
/// A quoted string literal as repr() chooses quotes and escapes.
std::string string_repr(std::string_view text);

struct JsonStyle {
    /// What one level is indented with; none means everything on one line.
    std::optional<std::string> indent;
    std::string item_separator = ", ";
    std::string key_separator = ": ";
    bool sort_keys = false;
    bool ascii = false;
};

/// Appends value as JSON. Fails on what JSON cannot hold (undefined, generators, functions).
Status append_json(const Values& values,
                   std::string& out,
                   const Value& value,
                   const JsonStyle& style,
                   std::uint32_t level = 0);

}  // namespace ballast::chat
