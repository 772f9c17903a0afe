// SPDX-License-Identifier: MIT
// POST /tokenize, /detokenize and /apply-template, as llama-server has them.
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/base/utf8.h"
#include "server/api/chat_request.h"
#include "server/api/completion_request.h"
#include "server/api/conversation.h"
#include "server/api/generation.h"
#include "server/api/handlers.h"
#include "server/api/json_reader.h"
#include "server/api/prompt.h"
#include "server/api/response_json.h"

namespace ballast::api {

namespace {

http::Reply answer(const ApiResult<Json>& result) {
    if (!result) {
        return error_reply(result.error());
    }
    http::Reply reply;
    reply.body = to_line(*result);
    return reply;
}

/// A token's text, or its bytes where they are not text.
Json piece_json(const ServedModel& served, TokenId id) {
    const std::string bytes = served.tokenizer->token_bytes(id, true);
    if (utf8_is_valid(bytes)) {
        return bytes;
    }
    Json list = Json::array();
    for (const char c : bytes) {
        list.push_back(static_cast<unsigned char>(c));
    }
    return list;
}

// It runs on the thread that speaks HTTP; this much takes a good half second.
constexpr std::size_t kContentBytesMax = 1 << 20;

ApiResult<Json> tokenize_body(const Services& services, const std::string& body) {
    BALLAST_TRY(const auto served, ready_model(services));
    BALLAST_TRY(const Json document, parse_json_object(body));
    const FieldReader fields(document);
    BALLAST_TRY(const auto content, fields.string("content"));
    if (!content) {
        return refuse(missing_parameter("content"));
    }
    if (content->size() > kContentBytesMax) {
        return refuse(
            invalid_value("content", "it is longer than 1 MiB; send it in parts.", "too_long"));
    }
    tokenizer::EncodeOptions encode;
    BALLAST_TRY(encode.add_special, fields.boolean_or("add_special", false));
    BALLAST_TRY(encode.parse_special, fields.boolean_or("parse_special", true));
    BALLAST_TRY(const bool with_pieces, fields.boolean_or("with_pieces", false));
    Json tokens = Json::array();
    for (const TokenId id : served->tokenizer->encode(*content, encode)) {
        if (with_pieces) {
            Json token;
            token["id"] = id;
            token["piece"] = piece_json(*served, id);
            tokens.push_back(std::move(token));
        } else {
            tokens.push_back(id);
        }
    }
    Json json;
    json["tokens"] = std::move(tokens);
    return json;
}

ApiResult<Json> detokenize_body(const Services& services, const std::string& body) {
    BALLAST_TRY(const auto served, ready_model(services));
    BALLAST_TRY(const Json document, parse_json_object(body));
    const Json* tokens = FieldReader(document).find("tokens");
    if (tokens == nullptr) {
        return refuse(missing_parameter("tokens"));
    }
    BALLAST_TRY(const auto ids, parse_ids(*tokens, "tokens", *served));
    Json json;
    json["content"] = served->tokenizer->decode(ids, true);
    return json;
}

ApiResult<Json> template_body(const Services& services, const std::string& body) {
    BALLAST_TRY(const auto served, ready_model(services));
    BALLAST_TRY(const Json document, parse_json_object(body));
    const FieldReader fields(document);
    BALLAST_TRY_STATUS(refuse_unbuilt_chat_fields(fields));
    BALLAST_TRY(const Conversation conversation, parse_conversation(fields, *served));
    BALLAST_TRY(std::string prompt,
                render_conversation(conversation, *served, services.clock.unix_seconds()));
    Json json;
    json["prompt"] = std::move(prompt);
    return json;
}

}  // namespace

http::Reply tokenize(Services& services, const http::Request& request) {
    return answer(tokenize_body(services, request.body));
}

http::Reply detokenize(Services& services, const http::Request& request) {
    return answer(detokenize_body(services, request.body));
}

http::Reply apply_template(Services& services, const http::Request& request) {
    return answer(template_body(services, request.body));
}

}  // namespace ballast::api
