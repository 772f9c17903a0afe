// SPDX-License-Identifier: MIT
// Ranges are the OpenAI API's; the fields beyond it are those that llama-server and vLLM share.
// Accepted and without effect: user, safety_identifier, metadata, store, service_tier, verbosity,
// prediction, prompt_cache_key, prompt_cache_retention, cache_prompt, parallel_tool_calls,
// stream_options.include_obfuscation, and any field that is not known at all.
#include "server/api/generation_request.h"

#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ballast::api {

namespace {

constexpr std::size_t kStopsMax = 4;
constexpr std::size_t kStopBytesMax = 4096;
constexpr std::size_t kLogitBiasMax = 4096;
constexpr std::int64_t kIntMax = std::numeric_limits<int>::max();

/// Fields of other servers that constrain or change the text: dropping one silently would hand out
/// an unconstrained reply.
struct Refusal {
    const char* name;
    const char* why;
};
constexpr const char* kNoConstraint = "replies cannot be constrained yet.";
constexpr const char* kNoSampler = "this way of sampling is not built.";
constexpr std::array kRefusals = {
    Refusal{"grammar", kNoConstraint},
    Refusal{"json_schema", kNoConstraint},
    Refusal{"guided_json", kNoConstraint},
    Refusal{"guided_regex", kNoConstraint},
    Refusal{"guided_choice", kNoConstraint},
    Refusal{"guided_grammar", kNoConstraint},
    Refusal{"structured_outputs", kNoConstraint},
    Refusal{"mirostat", kNoSampler},
    Refusal{"typical_p", kNoSampler},
    Refusal{"xtc_probability", kNoSampler},
    Refusal{"dry_multiplier", kNoSampler},
    Refusal{"use_beam_search", kNoSampler},
    Refusal{"lora", "adapters cannot be loaded."},
    Refusal{"min_tokens", "use ignore_eos with max_tokens for a fixed length."},
    Refusal{"stop_token_ids", "use stop with the token's text."},
};

/// 0, false and the empty string or list ask for nothing.
bool asks_for_something(const Json& value) {
    if (value.is_boolean()) {
        return value.get<bool>();
    }
    if (value.is_number()) {
        return value.get<double>() != 0.0;
    }
    if (value.is_string()) {
        return !value.get_ref<const std::string&>().empty();
    }
    return !value.empty();
}

ApiResult<std::vector<std::string>> parse_stop(const FieldReader& fields) {
    std::vector<std::string> stops;
    const Json* value = fields.find("stop");
    if (value == nullptr) {
        return stops;
    }
    const auto add = [&](const Json& one, const std::string& path) -> ApiResult<void> {
        if (!one.is_string()) {
            return refuse(invalid_type(path, "a string", type_name(one)));
        }
        const auto& text = one.get_ref<const std::string&>();
        if (text.empty() || text.size() > kStopBytesMax) {
            return refuse(invalid_value(
                path,
                fmt::format("a stop string has between 1 and {} bytes.", kStopBytesMax),
                "invalid_value"));
        }
        stops.push_back(text);
        return {};
    };
    if (value->is_string()) {
        BALLAST_TRY_STATUS(add(*value, "stop"));
        return stops;
    }
    if (!value->is_array()) {
        return refuse(invalid_type("stop", "a string or an array of strings", type_name(*value)));
    }
    if (value->size() > kStopsMax) {
        return refuse(invalid_value(
            "stop", fmt::format("at most {} stop strings.", kStopsMax), "array_above_max_length"));
    }
    for (std::size_t i = 0; i < value->size(); ++i) {
        BALLAST_TRY_STATUS(add((*value)[i], fmt::format("stop[{}]", i)));
    }
    return stops;
}

ApiResult<std::vector<std::pair<TokenId, float>>> parse_logit_bias(const FieldReader& fields,
                                                                   int vocabulary) {
    std::vector<std::pair<TokenId, float>> biases;
    BALLAST_TRY(const Json* map, fields.object("logit_bias"));
    if (map == nullptr) {
        return biases;
    }
    if (map->size() > kLogitBiasMax) {
        return refuse(invalid_value("logit_bias",
                                    fmt::format("at most {} tokens.", kLogitBiasMax),
                                    "object_above_max_properties"));
    }
    for (const auto& [key, value] : map->get_ref<const Json::object_t&>()) {
        const std::string path = "logit_bias." + key.substr(0, 32);
        TokenId id = 0;
        const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
        if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= vocabulary) {
            return refuse(
                invalid_value(path,
                              fmt::format("keys are token ids from 0 to {}.", vocabulary - 1),
                              "invalid_value"));
        }
        if (!value.is_number()) {
            return refuse(invalid_type(path, "a number", type_name(value)));
        }
        const double bias = value.get<double>();
        if (bias < -100.0 || bias > 100.0) {
            return refuse(
                invalid_value(path,
                              "a bias lies between -100 and 100.",
                              bias < 0 ? "decimal_below_min_value" : "decimal_above_max_value"));
        }
        biases.emplace_back(id, static_cast<float>(bias));
    }
    return biases;
}

ApiResult<void> parse_stream(const FieldReader& fields, GenerationRequest& request) {
    BALLAST_TRY(request.stream, fields.boolean_or("stream", false));
    BALLAST_TRY(const Json* options, fields.object("stream_options"));
    if (options == nullptr) {
        return {};
    }
    if (!request.stream) {
        return refuse(invalid_value(
            "stream_options", "it is only allowed when 'stream' is true.", "invalid_value"));
    }
    const FieldReader inner(*options, "stream_options.");
    BALLAST_TRY(request.include_usage, inner.boolean_or("include_usage", false));
    return {};
}

ApiResult<void> parse_length(const FieldReader& fields, GenerationRequest& request, int min) {
    const IntegerRange range{min, kIntMax};
    // In the order of precedence; n_predict is llama-server's name, where −1 leaves it open.
    BALLAST_TRY(const auto completion, fields.integer("max_completion_tokens", range));
    BALLAST_TRY(const auto old, fields.integer("max_tokens", range));
    BALLAST_TRY(const auto predict, fields.integer("n_predict", {-1, kIntMax}));
    for (const auto& value : {completion, old, predict}) {
        if (value) {
            request.max_tokens = static_cast<int>(*value);
            break;
        }
    }
    return {};
}

ApiResult<void> parse_sampling(const FieldReader& fields,
                               const ServedModel& served,
                               GenerationRequest& request) {
    sampling::SamplingOptions& s = request.sampling;
    const auto read = [&](const char* name, float fallback, NumberRange range) -> ApiResult<float> {
        BALLAST_TRY(const double value,
                    fields.number_or(name, static_cast<double>(fallback), range));
        return static_cast<float>(value);
    };
    BALLAST_TRY(s.temperature, read("temperature", 1.0F, {0, 2}));
    BALLAST_TRY(s.top_p, read("top_p", 1.0F, {0, 1}));
    BALLAST_TRY(s.min_p, read("min_p", 0.0F, {0, 1}));
    BALLAST_TRY(s.presence_penalty, read("presence_penalty", 0.0F, {-2, 2}));
    BALLAST_TRY(s.frequency_penalty, read("frequency_penalty", 0.0F, {-2, 2}));
    // vLLM's and llama-server's names for the same thing.
    const NumberRange repetition{0.01, 10};
    BALLAST_TRY(const auto repeat, fields.number("repeat_penalty", repetition));
    BALLAST_TRY(const auto given, fields.number("repetition_penalty", repetition));
    if (repeat && given && *repeat != *given) {
        return refuse(invalid_value("repeat_penalty",
                                    "it says something else than 'repetition_penalty'.",
                                    "invalid_value"));
    }
    s.repetition_penalty = static_cast<float>(given.value_or(repeat.value_or(1.0)));
    BALLAST_TRY(const auto top_k, fields.integer("top_k", {-1, kIntMax}));
    s.top_k = static_cast<int>(std::max<std::int64_t>(top_k.value_or(0), 0));
    BALLAST_TRY(const auto seed,
                fields.integer("seed",
                               {std::numeric_limits<std::int64_t>::min(),
                                std::numeric_limits<std::int64_t>::max()}));
    request.has_seed = seed.has_value();
    s.seed = static_cast<std::uint64_t>(seed.value_or(0));
    BALLAST_TRY(s.logit_bias, parse_logit_bias(fields, served.tokenizer->vocabulary_size()));
    BALLAST_TRY(request.ignore_eos, fields.boolean_or("ignore_eos", false));
    return {};
}

}  // namespace

ApiResult<GenerationRequest> parse_generation(const FieldReader& fields,
                                              const ServedModel& served,
                                              const ApiOptions& options,
                                              int max_tokens_min) {
    GenerationRequest request;
    BALLAST_TRY(const auto model, fields.string("model"));
    if (!model) {
        return refuse(missing_parameter("model"));
    }
    request.model = *model;
    if (!served.answers_to(request.model)) {
        return refuse(unknown_model(request.model, served));
    }
    BALLAST_TRY_STATUS(refuse_unsupported(fields));
    BALLAST_TRY_STATUS(parse_stream(fields, request));
    BALLAST_TRY_STATUS(parse_length(fields, request, max_tokens_min));
    BALLAST_TRY(const auto n, fields.integer("n", {1, options.choices_max}));
    request.n = static_cast<int>(n.value_or(1));
    BALLAST_TRY(request.stop, parse_stop(fields));
    BALLAST_TRY_STATUS(parse_sampling(fields, served, request));
    // Of no effect, but a wrong type is still the client's mistake.
    BALLAST_TRY_STATUS(fields.string("user"));
    BALLAST_TRY_STATUS(fields.object("metadata"));
    BALLAST_TRY_STATUS(fields.boolean("store"));
    return request;
}

ApiResult<void> refuse_unsupported(const FieldReader& fields) {
    for (const Refusal& refusal : kRefusals) {
        const Json* value = fields.find(refusal.name);
        const bool neutral_typical = value != nullptr && value->is_number() &&
                                     std::string_view(refusal.name) == "typical_p" &&
                                     value->get<double>() == 1.0;
        if (value != nullptr && asks_for_something(*value) && !neutral_typical) {
            return refuse(unsupported(refusal.name, refusal.why));
        }
    }
    return {};
}

}  // namespace ballast::api
