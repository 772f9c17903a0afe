// SPDX-License-Identifier: MIT
// POST /v1/completions: the same way without a chat template.
#include <utility>

#include <nlohmann/json.hpp>

#include "server/api/completion_request.h"
#include "server/api/completion_response.h"
#include "server/api/generation.h"
#include "server/api/handlers.h"
#include "server/api/json_reader.h"
#include "server/api/prompt.h"

namespace ballast::api {

namespace {

ApiResult<std::vector<TokenId>> prompt_ids(const CompletionPrompt& prompt,
                                           const ServedModel& served) {
    if (prompt.is_ids) {
        return prompt.ids;
    }
    BALLAST_TRY(std::vector<TokenId> ids, encode_text(prompt.text, served));
    if (ids.empty()) {
        return refuse(invalid_value("prompt", "it must not be empty.", "invalid_value"));
    }
    return ids;
}

/// What `echo` puts before a choice's own text.
std::string echo_text(const CompletionPrompt& prompt, const ServedModel& served) {
    return prompt.is_ids ? served.tokenizer->decode(prompt.ids, true) : prompt.text;
}

ApiResult<Generation> prepare(Services& services, const std::string& body) {
    Generation generation;
    BALLAST_TRY(generation.served, ready_model(services));
    const ServedModel& served = *generation.served;
    BALLAST_TRY(const Json document, parse_json_object(body));
    BALLAST_TRY(CompletionRequest request,
                parse_completion_request(document, served, services.options));
    std::vector<std::string> prefixes;
    for (const CompletionPrompt& prompt : request.prompts) {
        BALLAST_TRY(std::vector<TokenId> ids, prompt_ids(prompt, served));
        BALLAST_TRY(const int room,
                    reply_room(services, served, request.generation, ids.size(), "prompt"));
        generation.prompts.push_back(std::move(ids));
        generation.max_tokens.push_back(room);
        const std::string echo = request.echo ? echo_text(prompt, served) : std::string{};
        prefixes.insert(prefixes.end(), static_cast<std::size_t>(request.generation.n), echo);
    }
    ReplyHead head;
    head.id = "cmpl-" + services.ids.next_text();
    head.created = services.clock.unix_seconds();
    head.model = served.id;
    head.include_usage = request.generation.include_usage;
    head.logprobs = request.generation.sampling.top_logprobs >= 0;
    generation.format = make_completion_format(std::move(head), std::move(prefixes));
    generation.request = std::move(request.generation);
    return generation;
}

}  // namespace

http::Task<http::Reply> completions(Services& services,
                                    http::Request request,
                                    http::Connection& connection) {
    constexpr auto kEndpoint = metrics::Endpoint::kCompletions;
    ApiResult<Generation> generation = prepare(services, request.body);
    request.body = {};
    if (!generation) {
        co_return refuse_generation(services, kEndpoint, generation.error());
    }
    generation->endpoint = kEndpoint;
    http::Reply reply = co_await generate(services, connection, std::move(*generation));
    co_return reply;
}

}  // namespace ballast::api
