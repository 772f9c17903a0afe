// SPDX-License-Identifier: MIT
// The blocks of quantised weights, byte for byte as they stand in a GGUF file (little-endian).
// A block is a run of weights along one row. `d` and `dmin` are halves; w is the weight's value.
// Drawings list a byte's bits from high to low; i is the weight's index in its block.
#pragma once

#include <cstdint>

namespace ballast::quant {

/// w[i] = d * (q[i] - 8).
///   qs[j]: | q[j+16] 4 bits | q[j] 4 bits |   j = 0..15
struct BlockQ4_0 {
    static constexpr int kElements = 32;
    std::uint16_t d;
    std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

/// w[i] = d * q[i] + m. Nibbles as in Q4_0.
struct BlockQ4_1 {
    static constexpr int kElements = 32;
    std::uint16_t d;
    std::uint16_t m;
    std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

/// w[i] = d * (q[i] - 16), q of 5 bits: the low four as in Q4_0, the fifth of q[i] is bit i of the
/// 32-bit little-endian number qh.
struct BlockQ5_0 {
    static constexpr int kElements = 32;
    std::uint16_t d;
    std::uint8_t qh[4];
    std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

/// w[i] = d * q[i] + m, q as in Q5_0.
struct BlockQ5_1 {
    static constexpr int kElements = 32;
    std::uint16_t d;
    std::uint16_t m;
    std::uint8_t qh[4];
    std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

/// w[i] = d * qs[i].
struct BlockQ8_0 {
    static constexpr int kElements = 32;
    std::uint16_t d;
    std::int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

/// 16 groups g of 16 weights: w = (d * scale[g]) * q - dmin * min[g], q of 2 bits.
///   scales[g]: | min 4 bits | scale 4 bits |
///   qs, in two halves of 128 weights (32 bytes each): byte j of half h holds
///   | q[128h+96+j] | q[128h+64+j] | q[128h+32+j] | q[128h+j] |   j = 0..31
struct BlockQ2_K {
    static constexpr int kElements = 256;
    std::uint8_t scales[16];
    std::uint8_t qs[64];
    std::uint16_t d;
    std::uint16_t dmin;
};
static_assert(sizeof(BlockQ2_K) == 84);

/// 16 groups g of 16 weights: w = (d * (scale[g] - 32)) * q, q = low 2 bits - (high bit ? 0 : 4).
///   qs as in Q2_K; hmask: bit b of byte j is the high bit of weight 32b + j.
///   scales, 6 bits each (letters A..P are groups 0..15):
///   bytes 0-7:  | I A | J B | K C | L D | M E | N F | O G | P H |  low four bits each
///   bytes 8-11: | M I E A | N J F B | O K G C | P L H D |          high two bits each
struct BlockQ3_K {
    static constexpr int kElements = 256;
    std::uint8_t hmask[32];
    std::uint8_t qs[64];
    std::uint8_t scales[12];
    std::uint16_t d;
};
static_assert(sizeof(BlockQ3_K) == 110);

/// 8 groups g of 32 weights: w = (d * scale[g]) * q - dmin * min[g], q of 4 bits.
///   scales, 6 bits each (A..H scales, a..h mins of groups 0..7):
///   bytes 0-3:  | E 2 high | A 6 | ... | H 2 high | D 6 |
///   bytes 4-7:  | e 2 high | a 6 | ... | h 2 high | d 6 |
///   bytes 8-11: | e 4 low | E 4 low | ... | h 4 low | H 4 low |
///   qs, in four pairs of groups (32 bytes each): byte j of pair p holds
///   | q[64p+32+j] 4 bits | q[64p+j] 4 bits |   j = 0..31
struct BlockQ4_K {
    static constexpr int kElements = 256;
    std::uint16_t d;
    std::uint16_t dmin;
    std::uint8_t scales[12];
    std::uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

/// As Q4_K with q of 5 bits: bit g of qh[j] is the fifth bit of weight 32g + j.
struct BlockQ5_K {
    static constexpr int kElements = 256;
    std::uint16_t d;
    std::uint16_t dmin;
    std::uint8_t scales[12];
    std::uint8_t qh[32];
    std::uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

/// 16 groups g of 16 weights: w = (d * scales[g]) * (q - 32), q of 6 bits, in two halves of 128.
///   ql: byte j of half h (64 bytes) holds | q[128h+64+j] low 4 | q[128h+j] low 4 |   j = 0..63
///   qh: byte j of half h (32 bytes) holds the high two bits of
///   | q[128h+96+j] | q[128h+64+j] | q[128h+32+j] | q[128h+j] |   j = 0..31
struct BlockQ6_K {
    static constexpr int kElements = 256;
    std::uint8_t ql[128];
    std::uint8_t qh[64];
    std::int8_t scales[16];
    std::uint16_t d;
};
static_assert(sizeof(BlockQ6_K) == 210);

/// The 16 values of IQ4_NL and IQ4_XS: steps that grow away from zero.
constexpr std::int8_t kIq4Values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// w[i] = d * kIq4Values[q[i]]. Nibbles as in Q4_0.
struct BlockIQ4_NL {
    static constexpr int kElements = 32;
    std::uint16_t d;
    std::uint8_t qs[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

/// 8 groups g of 32 weights: w = (d * (scale[g] - 32)) * kIq4Values[q].
///   scales_l: nibble g (low nibble first) = low four bits; scales_h: bits 2g, 2g+1 = high two.
///   qs, 16 bytes a group: byte j of group g holds | q[32g+16+j] | q[32g+j] |   j = 0..15
struct BlockIQ4_XS {
    static constexpr int kElements = 256;
    std::uint16_t d;
    std::uint16_t scales_h;
    std::uint8_t scales_l[4];
    std::uint8_t qs[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

/// The 16 values of a 4-bit float (1 sign, 2 exponent, 1 mantissa), doubled to be whole.
constexpr std::int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// w[i] = 2^(e-127) / 2 * kMxfp4Values[q[i]]. Nibbles as in Q4_0. OCP Microscaling Formats 1.0.
struct BlockMXFP4 {
    static constexpr int kElements = 32;
    std::uint8_t e;
    std::uint8_t qs[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

}  // namespace ballast::quant
