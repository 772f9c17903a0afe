// SPDX-License-Identifier: MIT
// What chat has beyond the shared fields, and what it refuses.
#include "server/api/chat_request.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace ballast::api {

namespace {

ApiResult<void> refuse_tools(const FieldReader& fields) {
    const Json* tools = fields.find("tools");
    if (tools != nullptr && !tools->is_array()) {
        return refuse(invalid_type("tools", "an array", type_name(*tools)));
    }
    if (tools != nullptr && !tools->empty()) {
        return refuse(unsupported("tools", "tool calls are not built yet."));
    }
    const Json* choice = fields.find("tool_choice");
    if (choice != nullptr && *choice != "none") {
        return refuse(unsupported("tool_choice", "tool calls are not built yet; send 'none'."));
    }
    for (const char* name : {"functions", "function_call"}) {
        const Json* old = fields.find(name);
        if (old != nullptr && *old != "none" && !(old->is_array() && old->empty())) {
            return refuse(unsupported(name, "it has been replaced by 'tools'."));
        }
    }
    return {};
}

ApiResult<void> refuse_formats(const FieldReader& fields) {
    BALLAST_TRY(const Json* format, fields.object("response_format"));
    if (format != nullptr) {
        const FieldReader inner(*format, "response_format.");
        BALLAST_TRY(const auto type, inner.string("type"));
        if (!type) {
            return refuse(missing_parameter("response_format.type"));
        }
        if (*type != "text") {
            return refuse(unsupported("response_format",
                                      "replies cannot be constrained yet; send type 'text'."));
        }
    }
    const Json* modalities = fields.find("modalities");
    if (modalities != nullptr) {
        if (!modalities->is_array()) {
            return refuse(invalid_type("modalities", "an array", type_name(*modalities)));
        }
        for (const Json& modality : *modalities) {
            if (modality != "text") {
                return refuse(unsupported("modalities", "replies are text."));
            }
        }
    }
    for (const char* name : {"audio", "web_search_options"}) {
        if (fields.has(name)) {
            return refuse(unsupported(name, "replies are text made by the model alone."));
        }
    }
    return {};
}

ApiResult<int> parse_logprobs(const FieldReader& fields) {
    BALLAST_TRY(const bool wanted, fields.boolean_or("logprobs", false));
    BALLAST_TRY(const auto top, fields.integer("top_logprobs", {0, 20}));
    if (top && !wanted) {
        return refuse(invalid_value(
            "top_logprobs", "it is only allowed when 'logprobs' is true.", "invalid_value"));
    }
    return wanted ? static_cast<int>(top.value_or(0)) : -1;
}

}  // namespace

ApiResult<void> refuse_unbuilt_chat_fields(const FieldReader& fields) {
    BALLAST_TRY_STATUS(refuse_tools(fields));
    BALLAST_TRY_STATUS(refuse_formats(fields));
    BALLAST_TRY(const bool resume, fields.boolean_or("continue_final_message", false));
    if (resume) {
        return refuse(unsupported("continue_final_message", "a reply always begins a new turn."));
    }
    return {};
}

ApiResult<ChatRequest> parse_chat_request(const Json& body,
                                          const ServedModel& served,
                                          const ApiOptions& options) {
    const FieldReader fields(body);
    ChatRequest request;
    BALLAST_TRY(request.generation, parse_generation(fields, served, options, 1));
    BALLAST_TRY_STATUS(refuse_unbuilt_chat_fields(fields));
    BALLAST_TRY(request.generation.sampling.top_logprobs, parse_logprobs(fields));
    BALLAST_TRY(request.conversation, parse_conversation(fields, served));
    return request;
}

}  // namespace ballast::api
