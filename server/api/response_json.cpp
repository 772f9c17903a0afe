// SPDX-License-Identifier: MIT
// JSON of usage, timings and log-probabilities.
#include "server/api/response_json.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/base/utf8.h"

namespace ballast::api {

namespace {

// The API's stand-in for "very unlikely"; JSON has no infinity.
constexpr double kLogprobFloor = -9999.0;

double floored(float logprob) {
    const auto value = static_cast<double>(logprob);
    return std::isfinite(value) ? std::max(value, kLogprobFloor) : kLogprobFloor;
}

Json logprob_entry(const runtime::TokenLogprobs::Entry& entry) {
    Json bytes = Json::array();
    for (const char c : entry.bytes) {
        bytes.push_back(static_cast<unsigned char>(c));
    }
    Json json;
    json["token"] = entry.bytes;
    json["logprob"] = floored(entry.logprob);
    json["bytes"] = std::move(bytes);
    return json;
}

/// A token as a string; what is not UTF-8 by itself is spelled out, so that two such tokens differ.
std::string token_label(const std::string& bytes) {
    if (utf8_is_valid(bytes)) {
        return bytes;
    }
    std::string label = "bytes:";
    for (const char c : bytes) {
        label += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    return label;
}

double milliseconds(Nanoseconds time) {
    return std::chrono::duration<double, std::milli>(time).count();
}

double per_second(int count, Nanoseconds time) {
    return count > 0 && time.count() > 0 ? count / to_seconds(time) : 0.0;
}

}  // namespace

std::string to_line(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const char* finish_reason_text(runtime::FinishReason reason) {
    return reason == runtime::FinishReason::kStop ? "stop" : "length";
}

Json usage_json(const Usage& usage) {
    Json json;
    json["prompt_tokens"] = usage.prompt_tokens;
    json["completion_tokens"] = usage.completion_tokens;
    json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
    json["prompt_tokens_details"] = {{"cached_tokens", usage.cached_tokens}, {"audio_tokens", 0}};
    json["completion_tokens_details"] = {{"reasoning_tokens", 0},
                                         {"audio_tokens", 0},
                                         {"accepted_prediction_tokens", 0},
                                         {"rejected_prediction_tokens", 0}};
    return json;
}

Json timings_json(const runtime::JobStats& stats) {
    const int n_prompt = stats.prompt_tokens - stats.cached_prompt_tokens;
    Json json;
    json["prompt_n"] = n_prompt;
    json["prompt_ms"] = milliseconds(stats.prefill);
    json["prompt_per_second"] = per_second(n_prompt, stats.prefill);
    json["predicted_n"] = stats.completion_tokens;
    json["predicted_ms"] = milliseconds(stats.decode);
    // The first token comes out of the prefill: n tokens are n − 1 decode steps.
    json["predicted_per_second"] = per_second(stats.completion_tokens - 1, stats.decode);
    json["cache_n"] = stats.cached_prompt_tokens;
    return json;
}

Json head_json(const ReplyHead& head, const char* object) {
    Json json;
    json["id"] = head.id;
    json["object"] = object;
    json["created"] = head.created;
    json["model"] = head.model;
    json["system_fingerprint"] = "ballast-" BALLAST_VERSION;
    return json;
}

Json chat_logprobs(const std::vector<runtime::TokenLogprobs>& tokens) {
    Json content = Json::array();
    for (const runtime::TokenLogprobs& token : tokens) {
        Json entry = logprob_entry(token.chosen);
        Json top = Json::array();
        for (const auto& candidate : token.top) {
            top.push_back(logprob_entry(candidate));
        }
        entry["top_logprobs"] = std::move(top);
        content.push_back(std::move(entry));
    }
    Json json;
    json["content"] = std::move(content);
    json["refusal"] = nullptr;
    return json;
}

Json completion_logprobs(const std::vector<runtime::TokenLogprobs>& tokens, std::size_t& offset) {
    Json json;
    json["tokens"] = Json::array();
    json["token_logprobs"] = Json::array();
    json["top_logprobs"] = Json::array();
    json["text_offset"] = Json::array();
    for (const runtime::TokenLogprobs& token : tokens) {
        json["tokens"].push_back(token_label(token.chosen.bytes));
        json["token_logprobs"].push_back(floored(token.chosen.logprob));
        Json top = Json::object();
        for (const auto& candidate : token.top) {
            top[token_label(candidate.bytes)] = floored(candidate.logprob);
        }
        json["top_logprobs"].push_back(std::move(top));
        json["text_offset"].push_back(offset);
        offset += count_characters(token.chosen.bytes);
    }
    return json;
}

std::size_t count_characters(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

}  // namespace ballast::api
