// SPDX-License-Identifier: MIT
// The plain float types and the formats with blocks of 32 weights.
#include "engine/quant/dequantize.h"

#include <bit>
#include <cstring>

#include "engine/quant/each_block.h"
#include "engine/quant/float16.h"

namespace ballast::quant {

namespace {

// The fifth bits of a Q5_0 or Q5_1 block as one number.
std::uint32_t high_bits(const std::uint8_t (&qh)[4]) {
    return static_cast<std::uint32_t>(qh[0]) | (static_cast<std::uint32_t>(qh[1]) << 8) |
           (static_cast<std::uint32_t>(qh[2]) << 16) | (static_cast<std::uint32_t>(qh[3]) << 24);
}

// Nibble i of the arrangement that all 32-weight formats share: low nibbles first.
int nibble(const std::uint8_t (&qs)[16], int i) {
    return i < 16 ? qs[i] & 0x0F : qs[i - 16] >> 4;
}

int five_bits(const std::uint8_t (&qs)[16], std::uint32_t high, int i) {
    return nibble(qs, i) | (static_cast<int>((high >> i) & 1U) << 4);
}

std::uint16_t load_u16(const std::byte* from) {
    std::uint16_t value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

}  // namespace

void dequantize_f32(const std::byte* blocks, std::size_t n, float* out) {
    std::memcpy(out, blocks, n * sizeof(float));
}

void dequantize_f16(const std::byte* blocks, std::size_t n, float* out) {
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = half_to_float(load_u16(blocks + 2 * i));
    }
}

void dequantize_bf16(const std::byte* blocks, std::size_t n, float* out) {
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = bfloat16_to_float(load_u16(blocks + 2 * i));
    }
}

void dequantize_q4_0(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockQ4_0>(blocks, n, out, [](const BlockQ4_0& block, float* w) {
        const float d = half_to_float(block.d);
        for (int i = 0; i < 32; ++i) {
            w[i] = d * static_cast<float>(nibble(block.qs, i) - 8);
        }
    });
}

void dequantize_q4_1(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockQ4_1>(blocks, n, out, [](const BlockQ4_1& block, float* w) {
        const float d = half_to_float(block.d);
        const float m = half_to_float(block.m);
        for (int i = 0; i < 32; ++i) {
            w[i] = d * static_cast<float>(nibble(block.qs, i)) + m;
        }
    });
}

void dequantize_q5_0(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockQ5_0>(blocks, n, out, [](const BlockQ5_0& block, float* w) {
        const float d = half_to_float(block.d);
        const std::uint32_t high = high_bits(block.qh);
        for (int i = 0; i < 32; ++i) {
            w[i] = d * static_cast<float>(five_bits(block.qs, high, i) - 16);
        }
    });
}

void dequantize_q5_1(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockQ5_1>(blocks, n, out, [](const BlockQ5_1& block, float* w) {
        const float d = half_to_float(block.d);
        const float m = half_to_float(block.m);
        const std::uint32_t high = high_bits(block.qh);
        for (int i = 0; i < 32; ++i) {
            w[i] = d * static_cast<float>(five_bits(block.qs, high, i)) + m;
        }
    });
}

void dequantize_q8_0(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockQ8_0>(blocks, n, out, [](const BlockQ8_0& block, float* w) {
        const float d = half_to_float(block.d);
        for (int i = 0; i < 32; ++i) {
            w[i] = d * static_cast<float>(block.qs[i]);
        }
    });
}

void dequantize_iq4_nl(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockIQ4_NL>(blocks, n, out, [](const BlockIQ4_NL& block, float* w) {
        const float d = half_to_float(block.d);
        for (int i = 0; i < 32; ++i) {
            w[i] = d * static_cast<float>(kIq4Values[nibble(block.qs, i)]);
        }
    });
}

float mxfp4_scale(std::uint8_t e) {
    // 2^(e-128). Below 2^-126 (e < 2) the float is subnormal: 2^-128 and 2^-127.
    const std::uint32_t bits = e < 2 ? 0x00200000U << e : static_cast<std::uint32_t>(e - 1) << 23;
    return std::bit_cast<float>(bits);
}

void dequantize_mxfp4(const std::byte* blocks, std::size_t n, float* out) {
    each_block<BlockMXFP4>(blocks, n, out, [](const BlockMXFP4& block, float* w) {
        const float d = mxfp4_scale(block.e);
        for (int i = 0; i < 32; ++i) {
            w[i] = d * static_cast<float>(kMxfp4Values[nibble(block.qs, i)]);
        }
    });
}

}  // namespace ballast::quant
