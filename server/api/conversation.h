// SPDX-License-Identifier: MIT
// Messages as a chat template takes them: checked, with text parts joined and roles mapped.
#pragma once

// Only .cpp files of this folder include this header.
#include <nlohmann/json.hpp>

#include "server/api/error_reply.h"
#include "server/api/field_reader.h"
#include "server/api/model_state.h"

namespace ballast::api {

/// Validated. Plain data; for .cpp files of this folder only, it needs nlohmann's full header.
struct Conversation {
    Json messages = Json::array();    // [{role, content, name?, …}], content always a string
    Json variables = Json::object();  // further globals: reasoning_effort, enable_thinking
    bool add_generation_prompt = true;
};

/// Reads messages, add_generation_prompt, reasoning_effort and chat_template_kwargs.
ApiResult<Conversation> parse_conversation(const FieldReader& fields, const ServedModel& served);

}  // namespace ballast::api
