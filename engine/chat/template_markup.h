// SPDX-License-Identifier: MIT
// Strings marked as safe HTML. Chat templates are not HTML and nothing is escaped on output, but
// `safe` still makes Jinja's Markup, and what is added to a Markup with `+` gets escaped; real
// templates depend on it by accident.
#pragma once

#include <string_view>

#include "engine/chat/template_callable.h"
#include "engine/chat/template_values.h"

namespace ballast::chat {

bool is_markup(const Value& value);

/// A string as markup; of a list or tuple the strings in it; anything else stays.
Result<Value> as_markup(const Values& values, const Value& value);

/// A string with HTML's special characters escaped, as markup; markup and other values stay.
Result<Value> escaped(const Values& values, const Value& value);

/// Text with HTML's special characters escaped, as markup.
Result<Value> escape_text(const Values& values, std::string_view text);

/// What a method of markup escapes of its arguments before it uses them.
Result<Arguments> escaped_arguments(const Values& values,
                                    std::string_view method,
                                    const Arguments& arguments);

}  // namespace ballast::chat
