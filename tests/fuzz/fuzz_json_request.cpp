// SPDX-License-Identifier: MIT
// The bodies of the generating endpoints on any bytes. Whatever is accepted must lie within the
// limits that the engine relies on.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/base/check.h"
#include "server/api/chat_request.h"
#include "server/api/completion_request.h"
#include "server/api/json_reader.h"
#include "tests/server/support/fake_tokenizer.h"

namespace {

using ballast::api::ApiError;
using ballast::api::ApiOptions;
using ballast::api::error_json;
using ballast::api::GenerationRequest;
using ballast::api::Json;
using ballast::api::Message;
using ballast::api::parse_chat_request;
using ballast::api::parse_completion_request;
using ballast::api::parse_json_object;
using ballast::api::ServedModel;

void check_generation(const GenerationRequest& request, const ApiOptions& options) {
    BALLAST_CHECK(request.n >= 1 && request.n <= options.choices_max);
    BALLAST_CHECK(request.max_tokens >= -1);
    BALLAST_CHECK(request.stop.size() <= 4);
    for (const std::string& stop : request.stop) {
        BALLAST_CHECK(!stop.empty());
    }
    const auto& sampling = request.sampling;
    BALLAST_CHECK(sampling.temperature >= 0.0F && sampling.temperature <= 2.0F);
    BALLAST_CHECK(sampling.top_p >= 0.0F && sampling.top_p <= 1.0F);
    BALLAST_CHECK(sampling.top_k >= 0);
    BALLAST_CHECK(sampling.repetition_penalty > 0.0F);
    BALLAST_CHECK(sampling.top_logprobs >= -1 && sampling.top_logprobs <= 20);
    for (const auto& [id, bias] : sampling.logit_bias) {
        BALLAST_CHECK(id >= 0 && id < ballast::test::FakeTokenizer::kVocabulary);
        BALLAST_CHECK(bias >= -100.0F && bias <= 100.0F);
    }
}

void check_error(const ApiError& error) {
    BALLAST_CHECK(error.status >= 400 && error.status < 500);
    BALLAST_CHECK(!error.message.empty());
    const auto json = Json::parse(error_json(error), nullptr, false);
    BALLAST_CHECK(json.is_object() && json["error"].is_object());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const ballast::test::FakeTokenizer tokenizer;
    static const ServedModel served = [] {
        ServedModel model;
        model.id = "m";
        model.tokenizer = &tokenizer;
        model.context = 128;
        describe_vocabulary(model);
        return model;
    }();
    const ApiOptions options;
    const void* raw = data;
    const auto body = parse_json_object({static_cast<const char*>(raw), size});
    if (!body) {
        check_error(body.error());
        return 0;
    }
    if (const auto chat = parse_chat_request(*body, served, options)) {
        check_generation(chat->generation, options);
        BALLAST_CHECK(!chat->conversation.messages.empty());
        for (const Message& message : chat->conversation.messages) {
            BALLAST_CHECK(!message.role.empty());
        }
    } else {
        check_error(chat.error());
    }
    if (const auto completion = parse_completion_request(*body, served, options)) {
        check_generation(completion->generation, options);
        BALLAST_CHECK(!completion->prompts.empty());
    } else {
        check_error(completion.error());
    }
    return 0;
}
