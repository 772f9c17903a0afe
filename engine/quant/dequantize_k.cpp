// SPDX-License-Identifier: MIT
// The formats with super-blocks of 256 weights: groups with scales of their own, packed in few bits
// and multiplied by the block's.
#include "engine/quant/dequantize.h"
#include "engine/quant/each_block.h"
#include "engine/quant/float16.h"

namespace ballast::quant {

namespace {

// Two bits of weight i in the arrangement of Q2_K and Q3_K (and of Q6_K's high bits).
int two_bits(const std::uint8_t (&qs)[64], int i) {
    return (qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 0x03;
}

// Four bits of weight i in the arrangement of Q4_K and Q5_K.
int four_bits(const std::uint8_t (&qs)[128], int i) {
    return (qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 0x0F;
}

}  // namespace

void dequantize_q2_k(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockQ2_K>(blocks, n, out, [](const BlockQ2_K& block, float* w) {
        const float d = half_to_float(block.d);
        const float dmin = half_to_float(block.dmin);
        for (int i = 0; i < 256; ++i) {
            const std::uint8_t packed = block.scales[i / 16];
            const float scale = d * static_cast<float>(packed & 0x0F);
            const float min = dmin * static_cast<float>(packed >> 4);
            w[i] = scale * static_cast<float>(two_bits(block.qs, i)) - min;
        }
    });
}

void dequantize_q3_k(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockQ3_K>(blocks, n, out, [](const BlockQ3_K& block, float* w) {
        const float d = half_to_float(block.d);
        for (int i = 0; i < 256; ++i) {
            const float scale = d * static_cast<float>(scale_q3_k(block.scales, i / 16) - 32);
            const int high = (block.hmask[i % 32] >> (i / 32)) & 1;
            w[i] = scale * static_cast<float>(two_bits(block.qs, i) - (high != 0 ? 0 : 4));
        }
    });
}

void dequantize_q4_k(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockQ4_K>(blocks, n, out, [](const BlockQ4_K& block, float* w) {
        const float d = half_to_float(block.d);
        const float dmin = half_to_float(block.dmin);
        for (int i = 0; i < 256; ++i) {
            const ScaleMin group = scale_min_k4(block.scales, i / 32);
            const float scale = d * static_cast<float>(group.scale);
            const float min = dmin * static_cast<float>(group.min);
            w[i] = scale * static_cast<float>(four_bits(block.qs, i)) - min;
        }
    });
}

void dequantize_q5_k(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockQ5_K>(blocks, n, out, [](const BlockQ5_K& block, float* w) {
        const float d = half_to_float(block.d);
        const float dmin = half_to_float(block.dmin);
        for (int i = 0; i < 256; ++i) {
            const ScaleMin group = scale_min_k4(block.scales, i / 32);
            const float scale = d * static_cast<float>(group.scale);
            const float min = dmin * static_cast<float>(group.min);
            const int high = (block.qh[i % 32] >> (i / 32)) & 1;
            w[i] = scale * static_cast<float>(four_bits(block.qs, i) | (high << 4)) - min;
        }
    });
}

void dequantize_q6_k(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockQ6_K>(blocks, n, out, [](const BlockQ6_K& block, float* w) {
        const float d = half_to_float(block.d);
        for (int i = 0; i < 256; ++i) {
            const float scale = d * static_cast<float>(block.scales[i / 16]);
            const int low = (block.ql[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 0x0F;
            const int q = low | (two_bits(block.qh, i) << 4);
            w[i] = scale * static_cast<float>(q - 32);
        }
    });
}

void dequantize_iq4_xs(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockIQ4_XS>(blocks, n, out, [](const BlockIQ4_XS& block, float* w) {
        const float d = half_to_float(block.d);
        for (int i = 0; i < 256; ++i) {
            const int g = i / 32;
            const int low = (block.scales_l[g / 2] >> (g % 2 * 4)) & 0x0F;
            const int high = (block.scales_h >> (2 * g)) & 0x03;
            const float scale = d * static_cast<float>((low | (high << 4)) - 32);
            const int q = (block.qs[g * 16 + i % 16] >> (i % 32 / 16 * 4)) & 0x0F;
            w[i] = scale * static_cast<float>(kIq4Values[q]);
        }
    });
}

}  // namespace ballast::quant
