// SPDX-License-Identifier: MIT
// Text from a client to JSON, within limits: depth, number of values, and valid UTF-8. Nothing
// here or behind it recurses on the input's depth before the depth is known to be small.
#pragma once

#include <cstddef>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "engine/base/result.h"
#include "server/api/error_reply.h"

namespace ballast::api {

struct JsonLimits {
    std::size_t depth_max = 64;
    std::size_t values_max = 1'000'000;  // memory is at most about 100 bytes a value
};

/// The document, with members in the order they were sent. kInvalidRequest with the reason alone;
/// also for a member that occurs twice in one object, because two readers could understand it in
/// two ways.
Result<nlohmann::ordered_json> read_json(std::string_view text, const JsonLimits& limits = {});

/// The same for a request's body. Errors: invalid_json.
ApiResult<nlohmann::ordered_json> parse_json(std::string_view text, const JsonLimits& limits = {});

/// The same, and it must be an object.
ApiResult<nlohmann::ordered_json> parse_json_object(std::string_view text);

}  // namespace ballast::api
