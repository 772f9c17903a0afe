// SPDX-License-Identifier: MIT
// Types are strict: "1" is not a number and 1.5 is not an integer; 2.0 is, because some clients
// write every number that way.
#include "server/api/field_reader.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ballast::api {

namespace {

/// The integer a JSON number stands for, if it is one and fits.
std::optional<std::int64_t> as_integer(const Json& value) {
    if (value.is_number_unsigned()) {
        const auto number = value.get<std::uint64_t>();
        if (number <= static_cast<std::uint64_t>(INT64_MAX)) {
            return static_cast<std::int64_t>(number);
        }
        return std::nullopt;
    }
    if (value.is_number_integer()) {
        return value.get<std::int64_t>();
    }
    const double number = value.get<double>();
    // Doubles beyond 2^53 skip integers: a client that writes one means something else.
    if (std::trunc(number) == number && std::abs(number) <= 9007199254740992.0) {
        return static_cast<std::int64_t>(number);
    }
    return std::nullopt;
}

}  // namespace

std::string_view type_name(const Json& value) {
    switch (value.type()) {
        case Json::value_t::null:
            return "null";
        case Json::value_t::object:
            return "an object";
        case Json::value_t::array:
            return "an array";
        case Json::value_t::string:
            return "a string";
        case Json::value_t::boolean:
            return "a boolean";
        case Json::value_t::number_integer:
        case Json::value_t::number_unsigned:
            return "an integer";
        case Json::value_t::number_float:
            return "a decimal number";
        default:
            return "something else";
    }
}

const Json* FieldReader::find(std::string_view name) const {
    for (const auto& [key, value] : object_.get_ref<const Json::object_t&>()) {
        if (key == name) {
            return value.is_null() ? nullptr : &value;
        }
    }
    return nullptr;
}

ApiResult<std::optional<bool>> FieldReader::boolean(std::string_view name) const {
    const Json* value = find(name);
    if (value == nullptr) {
        return std::optional<bool>{};
    }
    if (!value->is_boolean()) {
        return refuse(invalid_type(path(name), "a boolean", type_name(*value)));
    }
    return std::optional<bool>(value->get<bool>());
}

ApiResult<std::optional<std::int64_t>> FieldReader::integer(std::string_view name,
                                                            IntegerRange range) const {
    const Json* value = find(name);
    if (value == nullptr) {
        return std::optional<std::int64_t>{};
    }
    if (!value->is_number()) {
        return refuse(invalid_type(path(name), "an integer", type_name(*value)));
    }
    const std::optional<std::int64_t> number = as_integer(*value);
    if (!number && value->is_number_float() && std::abs(value->get<double>()) < 9.0e15) {
        return refuse(invalid_type(path(name), "an integer", type_name(*value)));
    }
    const bool negative =
        number ? *number < range.min : value->is_number_float() && value->get<double>() < 0;
    if (negative) {
        return refuse(invalid_value(
            path(name), fmt::format("the minimum is {}.", range.min), "integer_below_min_value"));
    }
    if (!number || *number > range.max) {
        return refuse(invalid_value(
            path(name), fmt::format("the maximum is {}.", range.max), "integer_above_max_value"));
    }
    return number;
}

ApiResult<std::optional<double>> FieldReader::number(std::string_view name,
                                                     NumberRange range) const {
    const Json* value = find(name);
    if (value == nullptr) {
        return std::optional<double>{};
    }
    if (!value->is_number()) {
        return refuse(invalid_type(path(name), "a number", type_name(*value)));
    }
    const double number = value->get<double>();
    if (number < range.min) {
        return refuse(invalid_value(
            path(name), fmt::format("the minimum is {}.", range.min), "decimal_below_min_value"));
    }
    if (number > range.max) {
        return refuse(invalid_value(
            path(name), fmt::format("the maximum is {}.", range.max), "decimal_above_max_value"));
    }
    return std::optional<double>(number);
}

ApiResult<std::optional<std::string>> FieldReader::string(std::string_view name) const {
    const Json* value = find(name);
    if (value == nullptr) {
        return std::optional<std::string>{};
    }
    if (!value->is_string()) {
        return refuse(invalid_type(path(name), "a string", type_name(*value)));
    }
    return std::optional<std::string>(value->get<std::string>());
}

ApiResult<const Json*> FieldReader::object(std::string_view name) const {
    const Json* value = find(name);
    if (value != nullptr && !value->is_object()) {
        return refuse(invalid_type(path(name), "an object", type_name(*value)));
    }
    return value;
}

ApiResult<bool> FieldReader::boolean_or(std::string_view name, bool fallback) const {
    BALLAST_TRY(const std::optional<bool> value, boolean(name));
    return value.value_or(fallback);
}

ApiResult<double> FieldReader::number_or(std::string_view name,
                                         double fallback,
                                         NumberRange range) const {
    BALLAST_TRY(const std::optional<double> value, number(name, range));
    return value.value_or(fallback);
}

}  // namespace ballast::api
