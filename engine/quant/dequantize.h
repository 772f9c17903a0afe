// SPDX-License-Identifier: MIT
// Expands blocks to float32, one weight after the other: the executable specification of each
// format. Every product and sum is a float32 operation in the order written in blocks.h, so the
// results are equal bit for bit to those of the gguf Python package and of ggml.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/quant/blocks.h"

namespace ballast::quant {

// n is a number of weights, a multiple of the block's. `blocks` need not be aligned.
void dequantize_f32(const std::byte* blocks, std::size_t n, float* out);
void dequantize_f16(const std::byte* blocks, std::size_t n, float* out);
void dequantize_bf16(const std::byte* blocks, std::size_t n, float* out);
void dequantize_q4_0(const std::byte* blocks, std::size_t n, float* out);
void dequantize_q4_1(const std::byte* blocks, std::size_t n, float* out);
void dequantize_q5_0(const std::byte* blocks, std::size_t n, float* out);
void dequantize_q5_1(const std::byte* blocks, std::size_t n, float* out);
void dequantize_q8_0(const std::byte* blocks, std::size_t n, float* out);
void dequantize_iq4_nl(const std::byte* blocks, std::size_t n, float* out);
void dequantize_mxfp4(const std::byte* blocks, std::size_t n, float* out);
void dequantize_q2_k(const std::byte* blocks, std::size_t n, float* out);
void dequantize_q3_k(const std::byte* blocks, std::size_t n, float* out);
void dequantize_q4_k(const std::byte* blocks, std::size_t n, float* out);
void dequantize_q5_k(const std::byte* blocks, std::size_t n, float* out);
void dequantize_q6_k(const std::byte* blocks, std::size_t n, float* out);
void dequantize_iq4_xs(const std::byte* blocks, std::size_t n, float* out);

/// Scale and minimum of one group of a Q4_K or Q5_K block, 6 bits each.
struct ScaleMin {
    std::uint8_t scale = 0;
    std::uint8_t min = 0;
};

/// Unpacks group g (0..7) of the 12 bytes drawn at BlockQ4_K.
inline ScaleMin scale_min_k4(const std::uint8_t* scales, int g) {
    if (g < 4) {
        return {.scale = static_cast<std::uint8_t>(scales[g] & 0x3F),
                .min = static_cast<std::uint8_t>(scales[g + 4] & 0x3F)};
    }
    return {
        .scale = static_cast<std::uint8_t>((scales[g + 4] & 0x0F) | ((scales[g - 4] >> 2) & 0x30)),
        .min = static_cast<std::uint8_t>((scales[g + 4] >> 4) | ((scales[g] >> 2) & 0x30))};
}

/// Scale (before 32 is taken off) of group g (0..15) of the 12 bytes drawn at BlockQ3_K.
inline std::uint8_t scale_q3_k(const std::uint8_t* scales, int g) {
    const int low = (scales[g % 8] >> (g / 8 * 4)) & 0x0F;
    const int high = (scales[8 + g % 4] >> (g / 4 * 2)) & 0x03;
    return static_cast<std::uint8_t>(low | (high << 4));
}

/// 2^(e-127) / 2: the scale that makes MXFP4's doubled values right. Exact, subnormal for e < 2.
float mxfp4_scale(std::uint8_t e);

}  // namespace ballast::quant
