// SPDX-License-Identifier: MIT
// The tests after `is`: defined, string, mapping, equalto, …
#pragma once

#include <string_view>

#include "engine/chat/template_callable.h"
#include "engine/chat/template_values.h"

namespace ballast::chat {

Result<bool> apply_test(const Values& values,
                        std::string_view name,
                        const Value& value,
                        const Arguments& arguments);

/// Whether there is a test of that name.
bool has_test(std::string_view name);

}  // namespace ballast::chat
