// SPDX-License-Identifier: MIT
// The rules for messages.
#include "server/api/conversation.h"

#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ballast::api {

namespace {

constexpr std::size_t kMessagesMax = 4096;

bool known_role(std::string_view role) {
    static constexpr std::array<std::string_view, 4> kRoles = {
        "system", "developer", "user", "assistant"};
    for (const std::string_view known : kRoles) {
        if (role == known) {
            return true;
        }
    }
    return false;
}

/// A list of content parts as one string; only text can be understood. Parts are joined by line
/// ends, as llama-server and vLLM do.
ApiResult<std::string> join_parts(const Json& parts, const std::string& path) {
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::string part_path = fmt::format("{}[{}]", path, i);
        if (!parts[i].is_object()) {
            return refuse(invalid_type(part_path, "an object", type_name(parts[i])));
        }
        const FieldReader part(parts[i], part_path + ".");
        BALLAST_TRY(const auto type, part.string("type"));
        if (!type) {
            return refuse(missing_parameter(part_path + ".type"));
        }
        if (*type != "text") {
            return refuse(unsupported(part_path + ".type",
                                      fmt::format("content of type '{}' cannot be read by this "
                                                  "model; send text.",
                                                  type->substr(0, 64))));
        }
        BALLAST_TRY(const auto piece, part.string("text"));
        if (!piece) {
            return refuse(missing_parameter(part_path + ".text"));
        }
        if (i > 0) {
            text += '\n';
        }
        text += *piece;
    }
    return text;
}

ApiResult<std::string> parse_content(const FieldReader& message) {
    const std::string path = message.path("content");
    const Json* content = message.find("content");
    if (content == nullptr) {
        return refuse(missing_parameter(path));
    }
    if (content->is_string()) {
        return content->get<std::string>();
    }
    if (content->is_array()) {
        return join_parts(*content, path);
    }
    return refuse(invalid_type(path, "a string or an array of parts", type_name(*content)));
}

ApiResult<Message> parse_message(const Json& value, const std::string& path, bool has_developer) {
    if (!value.is_object()) {
        return refuse(invalid_type(path, "an object", type_name(value)));
    }
    const FieldReader fields(value, path + ".");
    BALLAST_TRY(auto role, fields.string("role"));
    if (!role) {
        return refuse(missing_parameter(path + ".role"));
    }
    if (*role == "tool" || *role == "function") {
        return refuse(unsupported(path + ".role", "tools are not built yet."));
    }
    if (!known_role(*role)) {
        return refuse(invalid_value(
            path + ".role", "use 'system', 'developer', 'user' or 'assistant'.", "invalid_value"));
    }
    for (const char* name : {"tool_calls", "function_call", "audio"}) {
        const Json* field = fields.find(name);
        if (field != nullptr && !field->empty()) {
            return refuse(unsupported(fields.path(name), "tools and audio are not built yet."));
        }
    }
    BALLAST_TRY(std::string content, parse_content(fields));
    Message message;
    message.role = *role == "developer" && !has_developer ? "system" : *role;
    message.content = std::move(content);
    BALLAST_TRY(message.name, fields.string("name"));
    BALLAST_TRY(message.reasoning_content, fields.string("reasoning_content"));
    return message;
}

/// For a model whose template knows neither word this has no effect, which is what it means for a
/// model that does not think.
ApiResult<void> parse_reasoning_effort(const FieldReader& fields, Conversation& conversation) {
    BALLAST_TRY(const auto effort, fields.string("reasoning_effort"));
    if (!effort) {
        return {};
    }
    for (const char* known : {"none", "minimal", "low", "medium", "high", "xhigh"}) {
        if (*effort == known) {
            conversation.reasoning_effort = *effort;
            conversation.enable_thinking = *effort != "none";
            return {};
        }
    }
    return refuse(invalid_value(fields.path("reasoning_effort"),
                                "use none, minimal, low, medium, high or xhigh.",
                                "invalid_value"));
}

/// chat_template_kwargs: an allow-list, because a template's variables could otherwise replace
/// messages and limits.
ApiResult<void> parse_template_arguments(const FieldReader& fields, Conversation& conversation) {
    BALLAST_TRY(const Json* arguments, fields.object("chat_template_kwargs"));
    if (arguments == nullptr) {
        return {};
    }
    const FieldReader inner(*arguments, "chat_template_kwargs.");
    for (const auto& [key, value] : arguments->get_ref<const Json::object_t&>()) {
        if (key != "enable_thinking" && key != "thinking" && key != "reasoning_effort") {
            return refuse(unsupported(inner.path(key.substr(0, 64)),
                                      "only enable_thinking, thinking and reasoning_effort are "
                                      "passed to the template."));
        }
    }
    BALLAST_TRY(const auto enable_thinking, inner.boolean("enable_thinking"));
    BALLAST_TRY(conversation.thinking, inner.boolean("thinking"));
    BALLAST_TRY_STATUS(parse_reasoning_effort(inner, conversation));
    if (enable_thinking) {
        conversation.enable_thinking = enable_thinking;
    }
    return {};
}

}  // namespace

ApiResult<Conversation> parse_conversation(const FieldReader& fields, const ServedModel& served) {
    const Json* messages = fields.find("messages");
    if (messages == nullptr) {
        return refuse(missing_parameter("messages"));
    }
    if (!messages->is_array()) {
        return refuse(invalid_type("messages", "an array", type_name(*messages)));
    }
    if (messages->empty() || messages->size() > kMessagesMax) {
        return refuse(invalid_value("messages",
                                    fmt::format("between 1 and {} messages.", kMessagesMax),
                                    messages->empty() ? "empty_array" : "array_above_max_length"));
    }
    Conversation conversation;
    const bool has_developer =
        served.chat_template != nullptr &&
        served.chat_template->source().find("developer") != std::string::npos;
    for (std::size_t i = 0; i < messages->size(); ++i) {
        BALLAST_TRY(Message message,
                    parse_message((*messages)[i], fmt::format("messages[{}]", i), has_developer));
        conversation.messages.push_back(std::move(message));
    }
    BALLAST_TRY(conversation.add_generation_prompt,
                fields.boolean_or("add_generation_prompt", true));
    BALLAST_TRY_STATUS(parse_reasoning_effort(fields, conversation));
    BALLAST_TRY_STATUS(parse_template_arguments(fields, conversation));
    return conversation;
}

}  // namespace ballast::api
