// SPDX-License-Identifier: MIT
// The table of element types.
#include "engine/quant/type_traits.h"

#include <array>

#include "engine/base/check.h"
#include "engine/quant/dequantize.h"

namespace ballast::quant {

namespace {

using Dequantize = void (*)(const std::byte*, std::size_t, float*);

template <class Block>
constexpr TypeTraits row(QuantType type, std::string_view name, Dequantize dequantize) {
    return {type, name, Block::kElements, sizeof(Block), dequantize};
}

constexpr std::array<TypeTraits, 16> kTypes = {
    TypeTraits{QuantType::kF32, "F32", 1, 4, dequantize_f32},
    TypeTraits{QuantType::kF16, "F16", 1, 2, dequantize_f16},
    row<BlockQ4_0>(QuantType::kQ4_0, "Q4_0", dequantize_q4_0),
    row<BlockQ4_1>(QuantType::kQ4_1, "Q4_1", dequantize_q4_1),
    row<BlockQ5_0>(QuantType::kQ5_0, "Q5_0", dequantize_q5_0),
    row<BlockQ5_1>(QuantType::kQ5_1, "Q5_1", dequantize_q5_1),
    row<BlockQ8_0>(QuantType::kQ8_0, "Q8_0", dequantize_q8_0),
    row<BlockQ2_K>(QuantType::kQ2_K, "Q2_K", dequantize_q2_k),
    row<BlockQ3_K>(QuantType::kQ3_K, "Q3_K", dequantize_q3_k),
    row<BlockQ4_K>(QuantType::kQ4_K, "Q4_K", dequantize_q4_k),
    row<BlockQ5_K>(QuantType::kQ5_K, "Q5_K", dequantize_q5_k),
    row<BlockQ6_K>(QuantType::kQ6_K, "Q6_K", dequantize_q6_k),
    row<BlockIQ4_NL>(QuantType::kIQ4_NL, "IQ4_NL", dequantize_iq4_nl),
    row<BlockIQ4_XS>(QuantType::kIQ4_XS, "IQ4_XS", dequantize_iq4_xs),
    TypeTraits{QuantType::kBF16, "BF16", 1, 2, dequantize_bf16},
    row<BlockMXFP4>(QuantType::kMXFP4, "MXFP4", dequantize_mxfp4),
};

}  // namespace

const TypeTraits* find_type(std::uint32_t gguf_type) {
    for (const TypeTraits& candidate : kTypes) {
        if (static_cast<std::uint32_t>(candidate.type) == gguf_type) {
            return &candidate;
        }
    }
    return nullptr;
}

const TypeTraits& traits(QuantType type) {
    const TypeTraits* found = find_type(static_cast<std::uint32_t>(type));
    BALLAST_CHECK(found != nullptr);
    return *found;
}

std::span<const TypeTraits> all_types() {
    return kTypes;
}

}  // namespace ballast::quant
