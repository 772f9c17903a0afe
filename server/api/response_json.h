// SPDX-License-Identifier: MIT
// Parts that replies of several endpoints have in common.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "server/api/field_reader.h"
#include "server/api/reply_format.h"

namespace ballast::api {

/// One line; bytes that are not UTF-8 become U+FFFD.
std::string to_line(const Json& value);

const char* finish_reason_text(runtime::FinishReason reason);
Json usage_json(const Usage& usage);
/// llama-server's `timings`.
Json timings_json(const runtime::JobStats& stats);
/// {id, object, created, model, system_fingerprint}
Json head_json(const ReplyHead& head, const char* object);

/// `logprobs` of chat: {content: […], refusal: null}.
Json chat_logprobs(const std::vector<runtime::TokenLogprobs>& tokens);
/// `logprobs` of completions; offset counts the characters before the first token and is advanced.
Json completion_logprobs(const std::vector<runtime::TokenLogprobs>& tokens, std::size_t& offset);

/// Characters (code points) that begin in these bytes.
std::size_t count_characters(std::string_view text);

}  // namespace ballast::api
