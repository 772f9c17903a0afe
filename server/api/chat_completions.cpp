// SPDX-License-Identifier: MIT
// POST /v1/chat/completions: body → request → prompt → ids → queue → reply.
#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/chat_request.h"
#include "server/api/chat_response.h"
#include "server/api/generation.h"
#include "server/api/handlers.h"
#include "server/api/json_reader.h"
#include "server/api/prompt.h"

namespace ballast::api {

namespace {

ApiResult<Generation> prepare(Services& services, const std::string& body) {
    Generation generation;
    BALLAST_TRY(generation.served, ready_model(services));
    const ServedModel& served = *generation.served;
    BALLAST_TRY(const Json document, parse_json_object(body));
    BALLAST_TRY(ChatRequest request, parse_chat_request(document, served, services.options));
    BALLAST_TRY(std::vector<TokenId> ids,
                encode_conversation(
                    std::move(request.conversation), served, services.clock.unix_seconds()));
    BALLAST_TRY(const int room,
                reply_room(services, served, request.generation, ids.size(), "messages"));
    if (ids.empty()) {
        return refuse(invalid_value("messages", "the prompt is empty.", "invalid_value"));
    }
    generation.prompts.push_back(std::move(ids));
    generation.max_tokens.push_back(room);
    ReplyHead head;
    head.id = "chatcmpl-" + services.ids.next_text();
    head.created = services.clock.unix_seconds();
    head.model = served.id;
    head.include_usage = request.generation.include_usage;
    head.logprobs = request.generation.sampling.top_logprobs >= 0;
    generation.format = make_chat_format(std::move(head));
    generation.request = std::move(request.generation);
    return generation;
}

}  // namespace

http::Task<http::Reply> chat_completions(Services& services,
                                         http::Request request,
                                         http::Connection& connection) {
    constexpr auto kEndpoint = metrics::Endpoint::kChatCompletions;
    ApiResult<Generation> generation = prepare(services, request.body);
    request.body = {};  // up to megabytes; the reply may take minutes
    if (!generation) {
        co_return refuse_generation(services, kEndpoint, generation.error());
    }
    generation->endpoint = kEndpoint;
    http::Reply reply = co_await generate(services, connection, std::move(*generation));
    co_return reply;
}

}  // namespace ballast::api
