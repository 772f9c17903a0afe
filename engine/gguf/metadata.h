// SPDX-License-Identifier: MIT
// The key-value section of a GGUF file, with typed access that names the key when it is missing
// or of another type.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/result.h"

namespace ballast::gguf {

/// A value. Integers of every width are widened: unsigned to uint64, signed to int64; floats to
/// double (in arrays to float32, infinite where too large). Arrays likewise; arrays of strings are
/// views into the mapping. Arrays of arrays are refused by the reader.
using Value = std::variant<std::uint64_t,
                           std::int64_t,
                           double,
                           bool,
                           std::string_view,
                           std::vector<std::uint64_t>,
                           std::vector<std::int64_t>,
                           std::vector<float>,
                           std::vector<bool>,
                           std::vector<std::string_view>>;

/// All pairs of one file. String views point into the mapping, which outlives this object.
class Metadata {
  public:
    /// False if the key is there already.
    bool insert(std::string key, Value value);

    const std::map<std::string, Value, std::less<>>& pairs() const { return pairs_; }
    const Value* find(std::string_view key) const;

    // Each returns the value; kCorruptFile naming the key if it is absent, of another type, or (for
    // integers) out of the range of the result. The _or forms return the fallback when absent and
    // still fail on a wrong type. Unsigned and signed integers convert to each other in range.
    Result<std::uint32_t> u32(std::string_view key) const;
    Result<std::uint32_t> u32_or(std::string_view key, std::uint32_t fallback) const;
    Result<float> f32(std::string_view key) const;
    Result<float> f32_or(std::string_view key, float fallback) const;
    Result<bool> boolean_or(std::string_view key, bool fallback) const;
    Result<std::string_view> string(std::string_view key) const;
    Result<std::string_view> string_or(std::string_view key, std::string_view fallback) const;
    Result<std::span<const std::string_view>> strings(std::string_view key) const;
    /// Any integer array, as int64. Empty when absent in the _or form.
    Result<std::vector<std::int64_t>> integers(std::string_view key) const;
    Result<std::vector<std::int64_t>> integers_or_empty(std::string_view key) const;
    Result<std::span<const float>> floats(std::string_view key) const;

  private:
    std::map<std::string, Value, std::less<>> pairs_;
};

}  // namespace ballast::gguf
