// SPDX-License-Identifier: MIT
// JSON to template values; the keys of objects keep their order.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/chat/template_value.h"
#include "engine/chat/template_values.h"

namespace ballast::chat {

Result<Value> value_from_json(const Values& values, const nlohmann::ordered_json& json);

}  // namespace ballast::chat
