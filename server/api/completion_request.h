// SPDX-License-Identifier: MIT
// The body of /v1/completions.
#pragma once

#include <string>
#include <vector>

#include "server/api/generation_request.h"

namespace ballast::api {

/// One prompt: text, or ids where the client has tokenised itself.
struct CompletionPrompt {
    std::string text;
    std::vector<TokenId> ids;
    bool is_ids = false;
};

/// Validated. Plain data.
struct CompletionRequest {
    GenerationRequest generation;
    std::vector<CompletionPrompt> prompts;  // at least one
    bool echo = false;
};

ApiResult<CompletionRequest> parse_completion_request(const Json& body,
                                                      const ServedModel& served,
                                                      const ApiOptions& options);

/// A list of token ids inside the vocabulary.
ApiResult<std::vector<TokenId>> parse_ids(const Json& list,
                                          const std::string& path,
                                          const ServedModel& served);

}  // namespace ballast::api
