// SPDX-License-Identifier: MIT
// Typed access to the pairs.
#include "engine/gguf/metadata.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace ballast::gguf {

namespace {

constexpr std::uint64_t kInt64Max =
    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

tl::unexpected<Error> missing(std::string_view key) {
    return fail(ErrorCode::kCorruptFile, fmt::format("the key {} is missing", key));
}

tl::unexpected<Error> not_a(std::string_view key, std::string_view what) {
    return fail(ErrorCode::kCorruptFile, fmt::format("the key {} is not {}", key, what));
}

Result<std::uint32_t> to_u32(std::string_view key, const Value& value) {
    constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();
    if (const auto* wide = std::get_if<std::uint64_t>(&value); wide != nullptr) {
        if (*wide > kMax) {
            return fail(ErrorCode::kCorruptFile,
                        fmt::format("the key {} is {}, over {}", key, *wide, kMax));
        }
        return static_cast<std::uint32_t>(*wide);
    }
    if (const auto* wide = std::get_if<std::int64_t>(&value); wide != nullptr) {
        if (*wide < 0 || *wide > static_cast<std::int64_t>(kMax)) {
            return fail(ErrorCode::kCorruptFile,
                        fmt::format("the key {} is {}, not from 0 to {}", key, *wide, kMax));
        }
        return static_cast<std::uint32_t>(*wide);
    }
    return not_a(key, "an integer");
}

Result<float> to_f32(std::string_view key, const Value& value) {
    const auto* wide = std::get_if<double>(&value);
    if (wide == nullptr) {
        return not_a(key, "a floating-point number");
    }
    constexpr auto kMax = static_cast<double>(std::numeric_limits<float>::max());
    if (std::isfinite(*wide) && std::fabs(*wide) > kMax) {
        return fail(ErrorCode::kCorruptFile,
                    fmt::format("the key {} is {}, too large for a float32", key, *wide));
    }
    return static_cast<float>(*wide);
}

Result<std::string_view> to_string(std::string_view key, const Value& value) {
    const auto* text = std::get_if<std::string_view>(&value);
    if (text == nullptr) {
        return not_a(key, "a string");
    }
    return *text;
}

Result<std::vector<std::int64_t>> to_integers(std::string_view key, const Value& value) {
    if (const auto* values = std::get_if<std::vector<std::int64_t>>(&value); values != nullptr) {
        return *values;
    }
    const auto* values = std::get_if<std::vector<std::uint64_t>>(&value);
    if (values == nullptr) {
        return not_a(key, "an array of integers");
    }
    std::vector<std::int64_t> result;
    result.reserve(values->size());
    for (const std::uint64_t element : *values) {
        if (element > kInt64Max) {
            return fail(
                ErrorCode::kCorruptFile,
                fmt::format("the array {} has the element {}, over 2^63 - 1", key, element));
        }
        result.push_back(static_cast<std::int64_t>(element));
    }
    return result;
}

}  // namespace

bool Metadata::insert(std::string key, Value value) {
    return pairs_.emplace(std::move(key), std::move(value)).second;
}

const Value* Metadata::find(std::string_view key) const {
    const auto found = pairs_.find(key);
    return found == pairs_.end() ? nullptr : &found->second;
}

Result<std::uint32_t> Metadata::u32(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return missing(key);
    }
    return to_u32(key, *value);
}

Result<std::uint32_t> Metadata::u32_or(std::string_view key, std::uint32_t fallback) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return fallback;
    }
    return to_u32(key, *value);
}

Result<float> Metadata::f32(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return missing(key);
    }
    return to_f32(key, *value);
}

Result<float> Metadata::f32_or(std::string_view key, float fallback) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return fallback;
    }
    return to_f32(key, *value);
}

Result<bool> Metadata::boolean_or(std::string_view key, bool fallback) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return fallback;
    }
    const auto* flag = std::get_if<bool>(value);
    if (flag == nullptr) {
        return not_a(key, "a boolean");
    }
    return *flag;
}

Result<std::string_view> Metadata::string(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return missing(key);
    }
    return to_string(key, *value);
}

Result<std::string_view> Metadata::string_or(std::string_view key,
                                             std::string_view fallback) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return fallback;
    }
    return to_string(key, *value);
}

Result<std::span<const std::string_view>> Metadata::strings(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return missing(key);
    }
    const auto* values = std::get_if<std::vector<std::string_view>>(value);
    if (values == nullptr) {
        return not_a(key, "an array of strings");
    }
    return std::span<const std::string_view>(*values);
}

Result<std::vector<std::int64_t>> Metadata::integers(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return missing(key);
    }
    return to_integers(key, *value);
}

Result<std::vector<std::int64_t>> Metadata::integers_or_empty(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return std::vector<std::int64_t>{};
    }
    return to_integers(key, *value);
}

Result<std::span<const float>> Metadata::floats(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) {
        return missing(key);
    }
    const auto* values = std::get_if<std::vector<float>>(value);
    if (values == nullptr) {
        return not_a(key, "an array of floating-point numbers");
    }
    return std::span<const float>(*values);
}

}  // namespace ballast::gguf
