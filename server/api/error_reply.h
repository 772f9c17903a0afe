// SPDX-License-Identifier: MIT
// Errors as clients see them: the one place that turns what went wrong into a status, a type and a
// code of the OpenAI API.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "server/api/model_state.h"
#include "server/http/reply.h"

namespace ballast::api {

/// One refusal. Empty `param` and `code` are sent as null.
struct ApiError {
    int status = 400;
    std::string message;
    std::string type = "invalid_request_error";
    std::string param;
    std::string code;
    int n_prompt_tokens = -1;  // context overflow only
    int n_context = -1;
    int retry_after_seconds = -1;  // −1: no header
    bool hopeless = false;         // x-should-retry: false
};

/// Value or ApiError; inside the API only, where a field's path and a code matter.
template <class T>
using ApiResult = tl::expected<T, ApiError>;

inline tl::unexpected<ApiError> refuse(ApiError error) {
    return tl::unexpected<ApiError>(std::move(error));
}

// What a request can get wrong. `param` is the path of the field.
ApiError invalid_json(const std::string& why);
ApiError missing_parameter(const std::string& param);
ApiError invalid_type(const std::string& param, std::string_view expected, std::string_view got);
/// code: integer_below_min_value, decimal_above_max_value, invalid_value, …
ApiError invalid_value(const std::string& param, const std::string& why, const char* code);
/// A field or value that would change the reply's meaning and that this server does not honour.
ApiError unsupported(const std::string& param, const std::string& why);
ApiError unknown_model(const std::string& name, const ServedModel& served);
ApiError prompt_too_long(const std::string& param, int n_prompt, bool at_least, int n_context);
ApiError sum_too_long(const std::string& param, int n_prompt, int n_reply, int n_context);
ApiError no_chat_template(const ServedModel& served);
/// The template refused the messages: its own sentence.
ApiError template_refused(const std::string& why);

// What keeps the server from answering now.
ApiError model_loading();
ApiError model_failed(const std::string& why);
ApiError model_file_changed(const std::string& why);
/// Errors of the lower layers, by their code.
ApiError from_error(const Error& error);

/// {"error": {…}} as one line.
std::string error_json(const ApiError& error);
http::Reply error_reply(const ApiError& error);
/// For refusals of the transport: the status says which.
http::Reply transport_error_reply(int status, const std::string& message);

}  // namespace ballast::api
