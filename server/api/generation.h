// SPDX-License-Identifier: MIT
// The common way of both generating endpoints: jobs into the queue, events out of the stream, and
// a reply that is streamed or sent as a whole.
#pragma once

#include <memory>
#include <vector>

#include "server/api/error_reply.h"
#include "server/api/generation_request.h"
#include "server/api/reply_format.h"
#include "server/api/services.h"
#include "server/http/connection.h"

namespace ballast::api {

/// A request that is ready to run. Moves into the coroutine.
struct Generation {
    std::shared_ptr<const ServedModel> served;
    metrics::Endpoint endpoint = metrics::Endpoint::kChatCompletions;
    GenerationRequest request;
    std::vector<std::vector<TokenId>> prompts;  // request.n choices for each
    std::vector<int> max_tokens;                // of each prompt's replies
    std::unique_ptr<ReplyFormat> format;
};

/// The model, or why nothing can be asked of it now.
ApiResult<std::shared_ptr<const ServedModel>> ready_model(const Services& services);

/// Tokens a reply may have, or the context overflow.
ApiResult<int> reply_room(const Services& services,
                          const ServedModel& served,
                          const GenerationRequest& request,
                          std::size_t n_prompt,
                          const char* param);

/// Counts the refusal and words it.
http::Reply refuse_generation(Services& services,
                              metrics::Endpoint endpoint,
                              const ApiError& error);

http::Task<http::Reply> generate(Services& services,
                                 http::Connection& connection,
                                 Generation generation);

}  // namespace ballast::api
