// SPDX-License-Identifier: MIT
// The tensor element types of GGUF and what is known of each: block size, bytes, name. One table;
// a type that is not in it cannot be loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ballast::quant {

/// Element types; the values are those of the GGUF format (ggml_type).
enum class QuantType : std::uint32_t {
    kF32 = 0,
    kF16 = 1,
    kQ4_0 = 2,
    kQ4_1 = 3,
    kQ5_0 = 6,
    kQ5_1 = 7,
    kQ8_0 = 8,
    kQ2_K = 10,
    kQ3_K = 11,
    kQ4_K = 12,
    kQ5_K = 13,
    kQ6_K = 14,
    kIQ4_NL = 20,
    kIQ4_XS = 23,
    kBF16 = 30,
    kMXFP4 = 39,
};

/// What is known of one type. A row is a whole number of blocks.
struct TypeTraits {
    QuantType type = QuantType::kF32;
    std::string_view name;             // as GGUF tools print it: "Q4_1"
    std::uint32_t block_elements = 1;  // weights in one block
    std::uint32_t block_bytes = 4;
    /// Expands n_elements (a multiple of block_elements) to float32; never null.
    void (*dequantize)(const std::byte* blocks, std::size_t n_elements, float* out) = nullptr;
};

/// The traits of a GGUF type number, or null for one we do not know.
const TypeTraits* find_type(std::uint32_t gguf_type);
/// The traits of a known type.
const TypeTraits& traits(QuantType type);
/// All rows of the table.
std::span<const TypeTraits> all_types();

/// Bytes of a row of n_elements; n_elements must be a multiple of block_elements.
inline std::size_t row_bytes(QuantType type, std::size_t n_elements) {
    const TypeTraits& t = traits(type);
    return n_elements / t.block_elements * t.block_bytes;
}

}  // namespace ballast::quant
