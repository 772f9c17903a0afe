// SPDX-License-Identifier: MIT
// One pair is a key, a type number and a value; an array adds an element type and a count. Nothing
// recurses: arrays of arrays are refused.
#include "engine/gguf/metadata_parser.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

namespace ballast::gguf {

namespace {

static_assert(std::endian::native == std::endian::little, "GGUF values are read in place");

enum class ValueType : std::uint32_t {
    kUint8 = 0,
    kInt8 = 1,
    kUint16 = 2,
    kInt16 = 3,
    kUint32 = 4,
    kInt32 = 5,
    kFloat32 = 6,
    kBool = 7,
    kString = 8,
    kArray = 9,
    kUint64 = 10,
    kInt64 = 11,
    kFloat64 = 12,
};

// What a pair takes beside its key's and its value's bytes: a map node, with room for the heap.
constexpr std::uint64_t kPairOverheadBytes = sizeof(std::pair<const std::string, Value>) + 64;

/// Where and what is being read, for messages.
struct Pair {
    std::string key;          // quoted
    std::uint64_t start = 0;  // byte at which the pair starts
};

tl::unexpected<Error> ends_inside(const Cursor& cursor, const Pair& pair) {
    return cursor.ends_inside(fmt::format("the value of key {}", pair.key), pair.start);
}

// The widened value: unsigned to uint64, signed to int64, floats to double.
template <class Wide, class Stored>
Result<Value> scalar(Cursor& cursor, const Pair& pair) {
    const auto stored = cursor.take<Stored>();
    if (!stored) {
        return ends_inside(cursor, pair);
    }
    return Value(static_cast<Wide>(*stored));
}

tl::unexpected<Error> bad_bool(const Cursor& cursor, const Pair& pair, unsigned value) {
    return cursor.corrupt(fmt::format(
        "key {} at byte {} has a boolean of {} (0 or 1 are allowed)", pair.key, pair.start, value));
}

Result<Value> boolean(Cursor& cursor, const Pair& pair) {
    const auto stored = cursor.take<std::uint8_t>();
    if (!stored) {
        return ends_inside(cursor, pair);
    }
    if (*stored > 1) {
        return bad_bool(cursor, pair, *stored);
    }
    return Value(*stored == 1);
}

Result<Value> string(Cursor& cursor, const Pair& pair) {
    BALLAST_TRY(const std::string_view text,
                cursor.take_string(fmt::format("the string of key {}", pair.key)));
    return Value(text);
}

// Refuses a count whose elements cannot all be in the file, before anything is allocated for them.
Status check_count(Cursor& cursor,
                   const Pair& pair,
                   std::uint64_t count,
                   std::uint64_t stored_bytes,
                   std::uint64_t memory_bytes) {
    if (count > cursor.left() / stored_bytes) {
        return cursor.corrupt(
            fmt::format("the array of key {} at byte {} claims {} elements but the file has {} "
                        "bytes left",
                        pair.key,
                        pair.start,
                        count,
                        cursor.left()));
    }
    // count is at most the file's size, memory_bytes at most 16: no overflow.
    return cursor.charge(count * memory_bytes, fmt::format("the array of key {}", pair.key));
}

// A double that no float can hold becomes an infinity, which whoever uses the value refuses.
float narrow(double value) {
    constexpr auto kMax = static_cast<double>(std::numeric_limits<float>::max());
    if (std::fabs(value) > kMax) {
        return std::copysign(std::numeric_limits<float>::infinity(), value < 0 ? -1.0F : 1.0F);
    }
    return static_cast<float>(value);
}

template <class Wide, class Stored>
Wide widened(Stored stored) {
    if constexpr (std::is_same_v<Stored, double>) {
        return narrow(stored);
    } else {
        return static_cast<Wide>(stored);
    }
}

template <class Wide, class Stored>
Result<Value> array(Cursor& cursor, const Pair& pair, std::uint64_t count) {
    BALLAST_TRY_STATUS(check_count(cursor, pair, count, sizeof(Stored), sizeof(Wide)));
    std::vector<Wide> values;
    values.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
        values.push_back(widened<Wide>(*cursor.take<Stored>()));
    }
    return Value(std::move(values));
}

Result<Value> boolean_array(Cursor& cursor, const Pair& pair, std::uint64_t count) {
    BALLAST_TRY_STATUS(check_count(cursor, pair, count, 1, 1));
    std::vector<bool> values;
    values.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint8_t stored = *cursor.take<std::uint8_t>();
        if (stored > 1) {
            return bad_bool(cursor, pair, stored);
        }
        values.push_back(stored == 1);
    }
    return Value(std::move(values));
}

Result<Value> string_array(Cursor& cursor, const Pair& pair, std::uint64_t count) {
    BALLAST_TRY_STATUS(
        check_count(cursor, pair, count, sizeof(std::uint64_t), sizeof(std::string_view)));
    std::vector<std::string_view> values;
    values.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
        // The name is made only for a message: an array has up to millions of strings.
        const std::uint64_t start = cursor.offset();
        const auto length = cursor.take<std::uint64_t>();
        const auto text = length ? cursor.take_bytes(*length) : std::nullopt;
        if (!text) {
            const std::string what = fmt::format("string {} of key {}", i, pair.key);
            if (!length) {
                return cursor.ends_inside(what, start);
            }
            return cursor.corrupt(
                fmt::format("{} at byte {} claims {} bytes but the file has {} "
                            "left",
                            what,
                            start,
                            *length,
                            cursor.left()));
        }
        values.push_back(*text);
    }
    return Value(std::move(values));
}

tl::unexpected<Error> bad_type(const Cursor& cursor, const Pair& pair, std::uint32_t type) {
    return cursor.corrupt(
        fmt::format("key {} at byte {} has the unknown value type {}", pair.key, pair.start, type));
}

Result<Value> any_array(Cursor& cursor, const Pair& pair) {
    const auto type = cursor.take<std::uint32_t>();
    const auto count = cursor.take<std::uint64_t>();
    if (!type || !count) {
        return ends_inside(cursor, pair);
    }
    switch (static_cast<ValueType>(*type)) {
        case ValueType::kUint8:
            return array<std::uint64_t, std::uint8_t>(cursor, pair, *count);
        case ValueType::kInt8:
            return array<std::int64_t, std::int8_t>(cursor, pair, *count);
        case ValueType::kUint16:
            return array<std::uint64_t, std::uint16_t>(cursor, pair, *count);
        case ValueType::kInt16:
            return array<std::int64_t, std::int16_t>(cursor, pair, *count);
        case ValueType::kUint32:
            return array<std::uint64_t, std::uint32_t>(cursor, pair, *count);
        case ValueType::kInt32:
            return array<std::int64_t, std::int32_t>(cursor, pair, *count);
        case ValueType::kFloat32:
            return array<float, float>(cursor, pair, *count);
        case ValueType::kBool:
            return boolean_array(cursor, pair, *count);
        case ValueType::kString:
            return string_array(cursor, pair, *count);
        case ValueType::kArray:
            return cursor.unsupported(
                fmt::format("key {} at byte {} is an array of arrays", pair.key, pair.start));
        case ValueType::kUint64:
            return array<std::uint64_t, std::uint64_t>(cursor, pair, *count);
        case ValueType::kInt64:
            return array<std::int64_t, std::int64_t>(cursor, pair, *count);
        case ValueType::kFloat64:
            return array<float, double>(cursor, pair, *count);
    }
    return bad_type(cursor, pair, *type);
}

Result<Value> any_value(Cursor& cursor, const Pair& pair, std::uint32_t type) {
    switch (static_cast<ValueType>(type)) {
        case ValueType::kUint8:
            return scalar<std::uint64_t, std::uint8_t>(cursor, pair);
        case ValueType::kInt8:
            return scalar<std::int64_t, std::int8_t>(cursor, pair);
        case ValueType::kUint16:
            return scalar<std::uint64_t, std::uint16_t>(cursor, pair);
        case ValueType::kInt16:
            return scalar<std::int64_t, std::int16_t>(cursor, pair);
        case ValueType::kUint32:
            return scalar<std::uint64_t, std::uint32_t>(cursor, pair);
        case ValueType::kInt32:
            return scalar<std::int64_t, std::int32_t>(cursor, pair);
        case ValueType::kFloat32:
            return scalar<double, float>(cursor, pair);
        case ValueType::kBool:
            return boolean(cursor, pair);
        case ValueType::kString:
            return string(cursor, pair);
        case ValueType::kArray:
            return any_array(cursor, pair);
        case ValueType::kUint64:
            return scalar<std::uint64_t, std::uint64_t>(cursor, pair);
        case ValueType::kInt64:
            return scalar<std::int64_t, std::int64_t>(cursor, pair);
        case ValueType::kFloat64:
            return scalar<double, double>(cursor, pair);
    }
    return bad_type(cursor, pair, type);
}

Result<std::string_view> parse_key(Cursor& cursor, std::uint64_t index, std::uint64_t n_pairs) {
    const std::uint64_t start = cursor.offset();
    const std::string what = fmt::format("the name of key {} of {}", index + 1, n_pairs);
    BALLAST_TRY(const std::string_view key, cursor.take_string(what));
    if (key.empty()) {
        return cursor.corrupt(fmt::format("{} at byte {} is empty", what, start));
    }
    if (key.size() > kKeyBytesMax) {
        return cursor.corrupt(fmt::format(
            "{} at byte {} has {} bytes; {} are allowed", what, start, key.size(), kKeyBytesMax));
    }
    return key;
}

// A multiple of 8 by the format; a power of two and not huge, so that rounding cannot overflow.
Result<std::uint64_t> check_alignment(const Cursor& cursor,
                                      const Pair& pair,
                                      std::uint32_t type,
                                      const Value& value) {
    const auto* alignment = std::get_if<std::uint64_t>(&value);
    if (type != static_cast<std::uint32_t>(ValueType::kUint32) || alignment == nullptr) {
        return cursor.corrupt(fmt::format(
            "key {} at byte {} is not a 32-bit unsigned integer", pair.key, pair.start));
    }
    if (!std::has_single_bit(*alignment) || *alignment < 8 || *alignment > 65536) {
        return cursor.corrupt(
            fmt::format("key {} at byte {} is {}, not a power of two from 8 to 65536",
                        pair.key,
                        pair.start,
                        *alignment));
    }
    return *alignment;
}

}  // namespace

Result<MetadataSection> parse_metadata(Cursor& cursor, std::uint64_t n_pairs) {
    MetadataSection section;
    for (std::uint64_t i = 0; i < n_pairs; ++i) {
        const std::uint64_t start = cursor.offset();
        BALLAST_TRY(const std::string_view key, parse_key(cursor, i, n_pairs));
        const Pair pair{.key = quoted(key), .start = start};
        BALLAST_TRY_STATUS(cursor.charge(key.size() + kPairOverheadBytes, "key " + pair.key));
        const auto type = cursor.take<std::uint32_t>();
        if (!type) {
            return ends_inside(cursor, pair);
        }
        BALLAST_TRY(Value value, any_value(cursor, pair, *type));
        if (key == "general.alignment") {
            BALLAST_TRY(section.alignment, check_alignment(cursor, pair, *type, value));
        }
        if (!section.metadata.insert(std::string(key), std::move(value))) {
            return cursor.corrupt(
                fmt::format("key {} at byte {} is there twice", pair.key, pair.start));
        }
    }
    return section;
}

}  // namespace ballast::gguf
