// SPDX-License-Identifier: MIT
// From a conversation or a text to token ids.
//
// Only the template's own text may become control tokens. llama.cpp parses the whole rendered
// prompt, so a user who writes `<|im_end|>` ends his own turn. Here, where a message holds the text
// of a control token, a mark is put before it; after rendering, marked text is encoded as plain
// text and the rest as usual. A conversation without such text takes the short way, which encodes
// the whole prompt at once; where nothing is hidden both ways give the same ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/api/conversation.h"
#include "server/api/error_reply.h"
#include "server/api/model_state.h"

namespace ballast::api {

/// The prompt as text, for people and tests.
ApiResult<std::string> render_conversation(const Conversation& conversation,
                                           const ServedModel& served,
                                           std::int64_t unix_seconds);

/// The prompt as ids, with BOS once.
ApiResult<std::vector<TokenId>> encode_conversation(Conversation conversation,
                                                    const ServedModel& served,
                                                    std::int64_t unix_seconds);

/// A plain prompt as ids, with BOS once; control tokens may be written out.
ApiResult<std::vector<TokenId>> encode_text(const std::string& text, const ServedModel& served);

}  // namespace ballast::api
