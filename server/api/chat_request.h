// SPDX-License-Identifier: MIT
// The body of /v1/chat/completions, checked field by field: each is honoured, accepted without
// effect as the OpenAI document allows, or refused by name.
#pragma once

#include "server/api/conversation.h"
#include "server/api/generation_request.h"

namespace ballast::api {

/// Validated. Plain data.
struct ChatRequest {
    GenerationRequest generation;
    Conversation conversation;
};

/// A 400 that names the first field whose effect is not built: tools, formats, other modalities,
/// continuing a message.
ApiResult<void> refuse_unbuilt_chat_fields(const FieldReader& fields);

ApiResult<ChatRequest> parse_chat_request(const Json& body,
                                          const ServedModel& served,
                                          const ApiOptions& options);

}  // namespace ballast::api
