// SPDX-License-Identifier: MIT
// Makes GGUF files, right ones and wrong ones, without any data from outside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/quant/type_traits.h"

namespace ballast::test {

/// One tensor as it goes into the file. The optional fields override what a right file would say.
struct GgufTensor {
    std::string name;
    std::uint32_t type = 0;
    std::vector<std::uint64_t> shape;  // GGUF order: the row length first
    std::string data;
    std::optional<std::uint64_t> offset;  // instead of the next aligned one
    std::optional<std::uint32_t> n_dims;  // instead of shape.size()
};

/// Builds the bytes of a file:
///     GgufWriter().add("general.architecture", "llama").tensor_f32("w", {4, 2}, values).bytes()
/// Integers keep the width of their C++ type.
class GgufWriter {
  public:
    GgufWriter& add(std::string_view key, std::uint8_t value);
    GgufWriter& add(std::string_view key, std::int8_t value);
    GgufWriter& add(std::string_view key, std::uint16_t value);
    GgufWriter& add(std::string_view key, std::int16_t value);
    GgufWriter& add(std::string_view key, std::uint32_t value);
    GgufWriter& add(std::string_view key, std::int32_t value);
    GgufWriter& add(std::string_view key, std::uint64_t value);
    GgufWriter& add(std::string_view key, std::int64_t value);
    GgufWriter& add(std::string_view key, float value);
    GgufWriter& add(std::string_view key, double value);
    GgufWriter& add(std::string_view key, bool value);
    GgufWriter& add(std::string_view key, std::string_view value);
    GgufWriter& add(std::string_view key, const char* value);
    GgufWriter& add(std::string_view key, const std::vector<std::uint32_t>& values);
    GgufWriter& add(std::string_view key, const std::vector<std::int32_t>& values);
    GgufWriter& add(std::string_view key, const std::vector<std::uint64_t>& values);
    GgufWriter& add(std::string_view key, const std::vector<std::int64_t>& values);
    GgufWriter& add(std::string_view key, const std::vector<std::uint8_t>& values);
    GgufWriter& add(std::string_view key, const std::vector<float>& values);
    GgufWriter& add(std::string_view key, const std::vector<double>& values);
    GgufWriter& add(std::string_view key, const std::vector<bool>& values);
    GgufWriter& add(std::string_view key, const std::vector<std::string>& values);

    /// A tensor with its bytes in the type's block layout.
    GgufWriter& tensor(std::string_view name,
                       quant::QuantType type,
                       const std::vector<std::uint64_t>& shape,
                       std::string_view data);
    GgufWriter& tensor_f32(std::string_view name,
                           const std::vector<std::uint64_t>& shape,
                           const std::vector<float>& values);
    GgufWriter& tensor(GgufTensor tensor);

    /// The alignment of tensor data; adds general.alignment (32 is used without it).
    GgufWriter& alignment(std::uint32_t bytes);

    // What a right file would not have.
    GgufWriter& version(std::uint32_t version);
    GgufWriter& magic(std::string_view magic);
    GgufWriter& key_count(std::uint64_t count);
    GgufWriter& tensor_count(std::uint64_t count);
    /// A pair whose key is written with this length and whose value is these bytes.
    GgufWriter& add_raw(std::string_view key,
                        std::uint32_t type,
                        std::string_view value_bytes,
                        std::optional<std::uint64_t> key_length = std::nullopt);
    /// Lays data out by this number while the metadata says what it says.
    GgufWriter& layout_alignment(std::uint32_t bytes);

    std::string bytes() const;
    /// Writes bytes() to a file.
    void write(const std::string& path) const;

  private:
    template <class T>
    GgufWriter& add_scalar(std::string_view key, std::uint32_t type, T value);
    template <class T>
    GgufWriter& add_array(std::string_view key, std::uint32_t type, const std::vector<T>& values);

    std::string magic_ = "GGUF";
    std::uint32_t version_ = 3;
    std::uint32_t alignment_ = 32;
    std::optional<std::uint64_t> key_count_;
    std::optional<std::uint64_t> tensor_count_;
    std::string pairs_;
    std::uint64_t n_pairs_ = 0;
    std::vector<GgufTensor> tensors_;
};

/// The little-endian bytes of a number, to put raw values together.
template <class T>
std::string le_bytes(T value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}
/// A string as GGUF stores it: 64-bit length and bytes.
std::string gguf_string(std::string_view text);

}  // namespace ballast::test
