// SPDX-License-Identifier: MIT
// The table of statuses, types and codes, and the wording of what every endpoint may answer.
#include "server/api/error_reply.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/base/utf8.h"

namespace ballast::api {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kServerError = "server_error";
constexpr int kRetryLoadingSeconds = 2;
constexpr int kRetryBusySeconds = 1;
constexpr int kRetryStoppingSeconds = 5;

Json text_or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

ApiError unavailable(const std::string& message, const char* code, int retry_after_seconds) {
    ApiError error;
    error.status = 503;
    error.message = message;
    error.type = kServerError;
    error.code = code;
    error.retry_after_seconds = retry_after_seconds;
    error.hopeless = retry_after_seconds < 0;
    return error;
}

ApiError bad_request(const std::string& message, const std::string& param, const char* code) {
    ApiError error;
    error.message = message;
    error.param = param;
    error.code = code;
    return error;
}

}  // namespace

ApiError invalid_json(const std::string& why) {
    return bad_request("The request's body is not valid JSON: " + why, "", "invalid_json");
}

ApiError missing_parameter(const std::string& param) {
    return bad_request(fmt::format("Missing required parameter: '{}'.", param),
                       param,
                       "missing_required_parameter");
}

ApiError invalid_type(const std::string& param, std::string_view expected, std::string_view got) {
    return bad_request(
        fmt::format(
            "Invalid type for '{}': expected {}, but got {} instead.", param, expected, got),
        param,
        "invalid_type");
}

ApiError invalid_value(const std::string& param, const std::string& why, const char* code) {
    return bad_request(fmt::format("Invalid value for '{}': {}", param, why), param, code);
}

ApiError unsupported(const std::string& param, const std::string& why) {
    return bad_request(fmt::format("'{}' is not supported by this server: {}", param, why),
                       param,
                       "unsupported_parameter");
}

namespace {

/// The beginning of what a client sent, to be shown to it.
std::string excerpt(const std::string& text) {
    constexpr std::size_t kBytesMax = 200;
    if (text.size() <= kBytesMax) {
        return text;
    }
    const std::string_view beginning = std::string_view(text).substr(0, kBytesMax);
    return std::string(beginning.substr(0, utf8_valid_prefix(beginning))) + "…";
}

}  // namespace

ApiError unknown_model(const std::string& name, const ServedModel& served) {
    ApiError error = bad_request(
        fmt::format("The model '{}' does not exist. This server has '{}'{}.",
                    excerpt(name),
                    served.id,
                    served.alias.empty() ? "" : fmt::format(", also called '{}'", served.alias)),
        "model",
        "model_not_found");
    error.status = 404;
    return error;
}

ApiError prompt_too_long(const std::string& param, int n_prompt, bool at_least, int n_context) {
    // Clients match this sentence with regular expressions: not a word may change.
    ApiError error = bad_request(
        fmt::format("This model's maximum context length is {} tokens. However, your messages "
                    "resulted in {}{} tokens. Please reduce the length of the messages.",
                    n_context,
                    at_least ? "at least " : "",
                    n_prompt),
        param,
        "context_length_exceeded");
    error.n_prompt_tokens = n_prompt;
    error.n_context = n_context;
    return error;
}

ApiError sum_too_long(const std::string& param, int n_prompt, int n_reply, int n_context) {
    ApiError error = bad_request(
        fmt::format("This model's maximum context length is {} tokens. However, you requested {} "
                    "tokens ({} in the messages, {} in the completion). Please reduce the length "
                    "of the messages or completion.",
                    n_context,
                    static_cast<long long>(n_prompt) + n_reply,
                    n_prompt,
                    n_reply),
        param,
        "context_length_exceeded");
    error.n_prompt_tokens = n_prompt;
    error.n_context = n_context;
    return error;
}

ApiError no_chat_template(const ServedModel& served) {
    const std::string why = served.chat_template_error.empty()
                                ? "has no chat template"
                                : fmt::format("has a chat template that cannot be used ({})",
                                              served.chat_template_error);
    return bad_request(fmt::format("The model '{}' {}, so it cannot chat. Start the server with "
                                   "--chat-template FILE, or use /v1/completions.",
                                   served.id,
                                   why),
                       "messages",
                       "no_chat_template");
}

ApiError template_refused(const std::string& why) {
    return bad_request(
        "The model's chat template refused the messages: " + why, "messages", "invalid_value");
}

ApiError model_loading() {
    return unavailable("The model is still being loaded.", "model_loading", kRetryLoadingSeconds);
}

ApiError model_failed(const std::string& why) {
    return unavailable("The model cannot be served: " + why, "model_failed", -1);
}

ApiError model_file_changed(const std::string& why) {
    return unavailable("The model must be loaded again: " + why, "model_changed", -1);
}

ApiError from_error(const Error& error) {
    ApiError result;
    result.message = error.message;
    switch (error.code) {
        case ErrorCode::kInvalidRequest:
        case ErrorCode::kUnsupported:
            result.code = "invalid_value";
            return result;
        case ErrorCode::kNotFound:
            result.status = 404;
            return result;
        case ErrorCode::kTooLarge:
            result.status = 413;
            return result;
        case ErrorCode::kOverloaded:
            result.status = 429;
            result.type = "rate_limit_error";
            result.code = "rate_limit_exceeded";
            result.retry_after_seconds = kRetryBusySeconds;
            return result;
        case ErrorCode::kCancelled:
            return unavailable(error.message, "server_stopping", kRetryStoppingSeconds);
        case ErrorCode::kDeviceLost:
        case ErrorCode::kOutOfMemory:
        case ErrorCode::kTimeout:
            return unavailable(error.message, "device_unavailable", kRetryStoppingSeconds);
        case ErrorCode::kCorruptFile:
        case ErrorCode::kIo:
        case ErrorCode::kInternal:
            break;
    }
    result.status = 500;
    result.type = kServerError;
    return result;
}

std::string error_json(const ApiError& error) {
    Json body;
    body["message"] = error.message;
    body["type"] = error.type;
    body["param"] = text_or_null(error.param);
    body["code"] = text_or_null(error.code);
    if (error.n_prompt_tokens >= 0) {
        body["n_prompt_tokens"] = error.n_prompt_tokens;
        body["n_ctx"] = error.n_context;
    }
    Json whole;
    whole["error"] = std::move(body);
    return whole.dump(-1, ' ', false, Json::error_handler_t::replace);
}

http::Reply error_reply(const ApiError& error) {
    http::Reply reply;
    reply.status = error.status;
    reply.body = error_json(error);
    if (error.retry_after_seconds >= 0) {
        reply.headers.push_back({"Retry-After", std::to_string(error.retry_after_seconds)});
    }
    if (error.hopeless) {
        reply.headers.push_back({"x-should-retry", "false"});
    }
    return reply;
}

http::Reply transport_error_reply(int status, const std::string& message) {
    ApiError error;
    error.status = status;
    error.message = message;
    switch (status) {
        case 403:
            error.type = "permission_error";
            break;
        case 404:
            error.code = "unknown_url";
            break;
        case 500:
            error.type = kServerError;
            break;
        case 503:
            error.type = kServerError;
            error.retry_after_seconds = kRetryBusySeconds;
            break;
        default:
            break;
    }
    return error_reply(error);
}

}  // namespace ballast::api
