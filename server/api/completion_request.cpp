// SPDX-License-Identifier: MIT
// All four forms of a prompt, and the fields that only this endpoint has.
#include "server/api/completion_request.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ballast::api {

namespace {

// The OpenAI document's default for this endpoint.
constexpr int kDefaultMaxTokens = 16;
constexpr std::size_t kPromptsMax = 64;

ApiResult<CompletionPrompt> text_prompt(const Json& value, const std::string& path) {
    if (!value.is_string()) {
        return refuse(invalid_type(path, "a string", type_name(value)));
    }
    return CompletionPrompt{value.get<std::string>(), {}, false};
}

ApiResult<CompletionPrompt> ids_prompt(const Json& value,
                                       const std::string& path,
                                       const ServedModel& served) {
    BALLAST_TRY(auto ids, parse_ids(value, path, served));
    if (ids.empty()) {
        return refuse(invalid_value(path, "it must not be empty.", "empty_array"));
    }
    return CompletionPrompt{"", std::move(ids), true};
}

ApiResult<std::vector<CompletionPrompt>> parse_prompts(const FieldReader& fields,
                                                       const ServedModel& served) {
    const Json* value = fields.find("prompt");
    if (value == nullptr) {
        return refuse(missing_parameter("prompt"));
    }
    std::vector<CompletionPrompt> prompts;
    if (value->is_string()) {
        BALLAST_TRY(auto prompt, text_prompt(*value, "prompt"));
        prompts.push_back(std::move(prompt));
        return prompts;
    }
    if (!value->is_array()) {
        return refuse(
            invalid_type("prompt", "a string or an array of strings or ids", type_name(*value)));
    }
    if (value->empty()) {
        return refuse(invalid_value("prompt", "it must not be empty.", "empty_array"));
    }
    if (value->front().is_number()) {
        BALLAST_TRY(auto prompt, ids_prompt(*value, "prompt", served));
        prompts.push_back(std::move(prompt));
        return prompts;
    }
    if (value->size() > kPromptsMax) {
        return refuse(invalid_value(
            "prompt", fmt::format("at most {} prompts.", kPromptsMax), "array_above_max_length"));
    }
    for (std::size_t i = 0; i < value->size(); ++i) {
        const Json& one = (*value)[i];
        const std::string path = fmt::format("prompt[{}]", i);
        BALLAST_TRY(auto prompt,
                    one.is_array() ? ids_prompt(one, path, served) : text_prompt(one, path));
        prompts.push_back(std::move(prompt));
    }
    return prompts;
}

ApiResult<void> refuse_completion_fields(const FieldReader& fields, int n) {
    BALLAST_TRY(const auto suffix, fields.string("suffix"));
    if (suffix && !suffix->empty()) {
        return refuse(unsupported("suffix", "text cannot be filled into the middle."));
    }
    BALLAST_TRY(const auto best_of, fields.integer("best_of", {1, 20}));
    if (best_of && *best_of != n) {
        return refuse(unsupported("best_of", "it must equal 'n'."));
    }
    return {};
}

}  // namespace

ApiResult<std::vector<TokenId>> parse_ids(const Json& list,
                                          const std::string& path,
                                          const ServedModel& served) {
    if (!list.is_array()) {
        return refuse(invalid_type(path, "an array of token ids", type_name(list)));
    }
    std::vector<TokenId> ids;
    ids.reserve(list.size());
    const auto vocabulary = static_cast<std::uint64_t>(served.tokenizer->vocabulary_size());
    for (std::size_t i = 0; i < list.size(); ++i) {
        const Json& value = list[i];
        if (!value.is_number_integer()) {
            return refuse(
                invalid_type(fmt::format("{}[{}]", path, i), "a token id", type_name(value)));
        }
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= vocabulary) {
            return refuse(invalid_value(fmt::format("{}[{}]", path, i),
                                        fmt::format("token ids are 0 to {}.", vocabulary - 1),
                                        "invalid_value"));
        }
        ids.push_back(static_cast<TokenId>(value.get<std::uint64_t>()));
    }
    return ids;
}

ApiResult<CompletionRequest> parse_completion_request(const Json& body,
                                                      const ServedModel& served,
                                                      const ApiOptions& options) {
    const FieldReader fields(body);
    CompletionRequest request;
    GenerationRequest& generation = request.generation;
    BALLAST_TRY(generation, parse_generation(fields, served, options, 0));
    if (generation.max_tokens < 0 && options.default_max_tokens == 0 && !fields.has("n_predict")) {
        generation.max_tokens = kDefaultMaxTokens;
    }
    BALLAST_TRY_STATUS(refuse_completion_fields(fields, generation.n));
    BALLAST_TRY(request.echo, fields.boolean_or("echo", false));
    BALLAST_TRY(const auto logprobs, fields.integer("logprobs", {0, 20}));
    generation.sampling.top_logprobs = static_cast<int>(logprobs.value_or(-1));
    if (request.echo && logprobs) {
        return refuse(unsupported("logprobs", "prompt tokens have none; send it without 'echo'."));
    }
    BALLAST_TRY(request.prompts, parse_prompts(fields, served));
    return request;
}

}  // namespace ballast::api
