// SPDX-License-Identifier: MIT
// Methods of strings, lists, tuples and dicts. Those that would change a value are refused, as in
// Jinja's immutable sandbox.
#pragma once

#include <string_view>

#include "engine/chat/template_callable.h"
#include "engine/chat/template_values.h"

namespace ballast::chat {

enum class MethodAccess { kNone, kAllowed, kUnsafe };

/// Whether Python's type has that method, and whether the sandbox lets a template have it.
MethodAccess method_access(const Value& object, std::string_view name);

/// Calls a method that method_access() allows.
Result<Value> call_method(const Values& values,
                          const Value& self,
                          std::string_view name,
                          const Arguments& arguments);

/// str.replace(); a negative count means all.
Result<Value> replace_text(const Values& values,
                           std::string_view text,
                           std::string_view from,
                           std::string_view to,
                           std::int64_t count);

/// separator.join(str of items).
Result<Value> join_items(const Values& values, const Value& iterable, std::string_view separator);

}  // namespace ballast::chat
