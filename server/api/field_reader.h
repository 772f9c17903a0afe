// SPDX-License-Identifier: MIT
// Typed access to the members of a request, with errors that name the field's path. A member that
// is null counts as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "server/api/error_reply.h"

namespace ballast::api {

using Json = nlohmann::ordered_json;

/// Inclusive bounds.
struct IntegerRange {
    std::int64_t min;
    std::int64_t max;
};
struct NumberRange {
    double min;
    double max;
};

/// "a string", "an integer", …
std::string_view type_name(const Json& value);

/// Reads one object. Borrows it; lives on the stack of a parsing function.
class FieldReader {
  public:
    /// path: what precedes member names in errors: "" or "stream_options.".
    explicit FieldReader(const Json& object, std::string path = "")
        : object_(object), path_(std::move(path)) {}

    /// Null if the member is absent or null.
    const Json* find(std::string_view name) const;
    bool has(std::string_view name) const { return find(name) != nullptr; }
    std::string path(std::string_view name) const { return path_ + std::string(name); }

    ApiResult<std::optional<bool>> boolean(std::string_view name) const;
    ApiResult<std::optional<std::int64_t>> integer(std::string_view name, IntegerRange range) const;
    ApiResult<std::optional<double>> number(std::string_view name, NumberRange range) const;
    ApiResult<std::optional<std::string>> string(std::string_view name) const;
    /// Null if absent.
    ApiResult<const Json*> object(std::string_view name) const;

    ApiResult<bool> boolean_or(std::string_view name, bool fallback) const;
    ApiResult<double> number_or(std::string_view name, double fallback, NumberRange range) const;

  private:
    const Json& object_;
    std::string path_;
};

}  // namespace ballast::api
