// SPDX-License-Identifier: MIT
// Messages as a chat template takes them: checked, with text parts joined and roles mapped.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/api/error_reply.h"
#include "server/api/field_reader.h"
#include "server/api/model_state.h"

namespace ballast::api {

/// One turn. Plain data.
struct Message {
    std::string role;  // system, developer, user or assistant
    std::string content;
    std::optional<std::string> name;
    std::optional<std::string> reasoning_content;
};

/// Validated. Plain data.
struct Conversation {
    std::vector<Message> messages;  // at least one
    bool add_generation_prompt = true;
    // Further variables of the template; absent ones are undefined there.
    std::optional<std::string> reasoning_effort;
    std::optional<bool> enable_thinking;
    std::optional<bool> thinking;
};

/// Reads messages, add_generation_prompt, reasoning_effort and chat_template_kwargs.
ApiResult<Conversation> parse_conversation(const FieldReader& fields, const ServedModel& served);

}  // namespace ballast::api
