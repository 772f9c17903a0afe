// SPDX-License-Identifier: MIT
// Python's two ways to fill in a string: the % operator and str.format(), and number formatting.
#pragma once

#include <string>
#include <string_view>

#include "engine/chat/template_callable.h"
#include "engine/chat/template_value.h"
#include "engine/chat/template_values.h"

namespace ballast::chat {

/// text % argument: a tuple fills in order, a dict by name, anything else is the only argument.
Result<Value> percent_format(const Values& values, std::string_view text, const Value& argument);

/// text.format(*positional, **named).
Result<Value> brace_format(const Values& values, std::string_view text, const Arguments& arguments);

/// A number with a fixed count of digits after the point, rounded half to even as Python does.
std::string fixed_text(double value, int digits);

}  // namespace ballast::chat
