// SPDX-License-Identifier: MIT
// Weights out of their blocks into registers, in the order of the packed activations: per 128
// weights one register of first halves (16 bytes of each of four blocks) and one of second halves,
// as unsigned bytes. What an unsigned code stands for depends on the format:
//   kMinimum     w = scale · code + min                     (Q4_1 Q5_1 Q4_K Q5_K)
//   kOffset      w = scale · (code − offset)                (Q4_0 Q5_0 Q8_0)
//   kHalfScales  the same with one scale per 16             (Q6_K)
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "engine/kernels/cpu/packed_activations.h"
#include "engine/quant/blocks.h"

namespace ballast::kernels::avx512 {

enum class Kind { kMinimum, kOffset, kHalfScales };

struct Unpacked {
    __m512i half[2];
    // kMinimum: [4 scales | 4 minima]; kOffset: [4 scales | unused];
    // kHalfScales: [4 scales of first halves | 4 of second halves].
    __m256 scales;
};

/// 32 indices for vpermt2w.
struct alignas(64) WordIndex {
    std::uint16_t word[32];
};

inline __m512i load_index(const WordIndex& index) {
    return _mm512_load_si512(&index);
}

/// 64 bytes at p + offset of which those past `valid` bytes of p read as zero and are not touched.
template <bool kTail>
inline __m512i load_part(const std::uint8_t* p, int offset, int valid) {
    if constexpr (!kTail) {
        return _mm512_loadu_si512(p + offset);
    }
    const int words = (valid - offset) / 2;
    const __mmask32 mask =
        words >= 32 ? ~0U : (words <= 0 ? 0U : (1U << static_cast<unsigned>(words)) - 1U);
    return _mm512_maskz_loadu_epi16(mask, p + offset);
}

/// Formats with 32 weights and 16 bytes of nibbles a block. Four blocks are covered by two loads,
/// the second ending where the fourth block ends; a vpermt2w picks any words of the two.
template <int kBytes, int kQs, int kMin, int kHigh, Kind kFormatKind, int kFormatOffset>
struct NibbleFormat {
    static constexpr Kind kKind = kFormatKind;
    static constexpr int kOffset = kFormatOffset;
    static constexpr int kStepGroups = 1;
    static constexpr int kStepBytes = kGroupBlocks * kBytes;
    static constexpr int kBlockBytes = kBytes;
    static constexpr bool kPrefetch = true;
    static constexpr int kSecond = kStepBytes - 64;

    // Position of byte `at` of block `b` among the words of the two loads.
    static constexpr std::uint16_t source(int b, int at) {
        const int word = (b * kBytes + at) / 2;
        return static_cast<std::uint16_t>(word < 32 ? word : 32 + word - kSecond / 2);
    }
    static constexpr WordIndex nibble_index() {
        WordIndex index{};
        for (int i = 0; i < 32; ++i) {
            index.word[i] = source(i / 8, kQs + i % 8 * 2);
        }
        return index;
    }
    // [4 scales][4 minima][4 low halves of qh][4 high halves of qh]
    static constexpr WordIndex field_index() {
        WordIndex index{};
        for (int b = 0; b < kGroupBlocks; ++b) {
            index.word[b] = source(b, 0);
            index.word[4 + b] = source(b, kMin);
            index.word[8 + b] = source(b, kHigh);
            index.word[12 + b] = source(b, kHigh + 2);
        }
        return index;
    }
    static constexpr WordIndex kNibbles = nibble_index();
    static constexpr WordIndex kFields = field_index();

    template <bool kTail>
    static void unpack(const std::uint8_t* p, int n_blocks, Unpacked* out) {
        const int valid = n_blocks * kBytes;
        const __m512i a = load_part<kTail>(p, 0, valid);
        const __m512i b = load_part<kTail>(p, kSecond, valid);
        const __m512i codes = _mm512_permutex2var_epi16(a, load_index(kNibbles), b);
        const __m256i fields =
            _mm512_castsi512_si256(_mm512_permutex2var_epi16(a, load_index(kFields), b));
        const __m512i low = _mm512_set1_epi8(0x0F);
        out->half[0] = _mm512_and_si512(codes, low);
        out->half[1] = _mm512_and_si512(_mm512_srli_epi16(codes, 4), low);
        out->scales = _mm256_cvtph_ps(_mm256_castsi256_si128(fields));
        if constexpr (kHigh != 0) {
            // Bit i of a block's qh belongs to weight i: gathered by halves, the bits are masks.
            const __m128i bits = _mm256_extracti128_si256(fields, 1);
            const auto first = static_cast<std::uint64_t>(_mm_cvtsi128_si64(bits));
            const auto second = static_cast<std::uint64_t>(_mm_extract_epi64(bits, 1));
            const __m512i fifth = _mm512_set1_epi8(0x10);
            out->half[0] =
                _mm512_mask_add_epi8(out->half[0], _cvtu64_mask64(first), out->half[0], fifth);
            out->half[1] =
                _mm512_mask_add_epi8(out->half[1], _cvtu64_mask64(second), out->half[1], fifth);
        }
    }
};

using FormatQ4_0 = NibbleFormat<18, 2, 0, 0, Kind::kOffset, 8>;
using FormatQ4_1 = NibbleFormat<20, 4, 2, 0, Kind::kMinimum, 0>;
using FormatQ5_0 = NibbleFormat<22, 6, 0, 2, Kind::kOffset, 16>;
using FormatQ5_1 = NibbleFormat<24, 8, 2, 4, Kind::kMinimum, 0>;

/// Words of a Q8_0 block's bytes 2 + 16·half … in loads at bytes `first` and `second`.
constexpr WordIndex q8_0_code_index(int half, int first, int second) {
    WordIndex index{};
    for (int i = 0; i < 32; ++i) {
        const int word = i / 8 * 17 + 1 + half * 8 + i % 8;
        const bool in_first = word - first / 2 < 32;
        index.word[i] =
            static_cast<std::uint16_t>(in_first ? word - first / 2 : 32 + word - second / 2);
    }
    return index;
}

constexpr WordIndex q8_0_scale_index() {
    WordIndex index{};
    for (int b = 0; b < kGroupBlocks; ++b) {
        index.word[b] = static_cast<std::uint16_t>(b * 17);
    }
    return index;
}

/// Bytes, made unsigned by adding 128. Four blocks of 34 bytes; each half of a block crosses other
/// borders, so the two halves have their own pairs of loads.
struct FormatQ8_0 {
    static constexpr Kind kKind = Kind::kOffset;
    static constexpr int kOffset = 128;
    static constexpr int kStepGroups = 1;
    static constexpr int kBlockBytes = 34;
    static constexpr int kStepBytes = kGroupBlocks * kBlockBytes;
    static constexpr bool kPrefetch = true;

    static constexpr WordIndex kHalf0 = q8_0_code_index(0, 0, 64);
    static constexpr WordIndex kHalf1 = q8_0_code_index(1, 16, 72);
    static constexpr WordIndex kScales = q8_0_scale_index();

    template <bool kTail>
    static void unpack(const std::uint8_t* p, int n_blocks, Unpacked* out) {
        const int valid = n_blocks * kBlockBytes;
        const __m512i a = load_part<kTail>(p, 0, valid);
        const __m512i b = load_part<kTail>(p, 64, valid);
        const __m512i c = load_part<kTail>(p, 16, valid);
        const __m512i d = load_part<kTail>(p, 72, valid);
        const __m512i flip = _mm512_set1_epi8(-128);
        out->half[0] = _mm512_xor_si512(_mm512_permutex2var_epi16(a, load_index(kHalf0), b), flip);
        out->half[1] = _mm512_xor_si512(_mm512_permutex2var_epi16(c, load_index(kHalf1), d), flip);
        const __m512i scales = _mm512_permutex2var_epi16(a, load_index(kScales), b);
        out->scales = _mm256_castps128_ps256(_mm_cvtph_ps(_mm512_castsi512_si128(scales)));
    }
};

/// Scales and minima of a Q4_K or Q5_K super-block, times d and −dmin:
/// [4 scales | 4 minima] of the first 128 weights, then of the second. The 6-bit fields are drawn
/// at BlockQ4_K; as dwords the header is [d dmin][s0 s1 s2 s3][m0 m1 m2 m3][low nibbles of 4..7].
inline __m512 super_block_scales(const std::uint8_t* p) {
    const __m128i header = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i low =
        _mm_and_si128(_mm_srlv_epi32(_mm_shuffle_epi32(header, _MM_SHUFFLE(3, 3, 2, 1)),
                                     _mm_setr_epi32(0, 0, 0, 4)),
                      _mm_setr_epi32(0x3F3F3F3F, 0x3F3F3F3F, 0x0F0F0F0F, 0x0F0F0F0F));
    const __m128i high =
        _mm_and_si128(_mm_srli_epi32(_mm_shuffle_epi32(header, _MM_SHUFFLE(2, 1, 0, 0)), 2),
                      _mm_setr_epi32(0, 0, 0x30303030, 0x30303030));
    const __m512 fields = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_or_si128(low, high)));
    const __m128 d = _mm_xor_ps(_mm_cvtph_ps(header), _mm_setr_ps(0.0F, -0.0F, 0.0F, 0.0F));
    const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1);
    return _mm512_mul_ps(fields, _mm512_permutexvar_ps(spread, _mm512_castps128_ps512(d)));
}

/// 64 bytes of nibbles [c0 c1 c2 c3] hold blocks 0 (low) and 1 (high) in c0 c1, 2 and 3 in c2 c3.
inline void unpack_nibble_pairs(const std::uint8_t* qs, __m512i* half) {
    const __m512i codes = _mm512_loadu_si512(qs);
    // A shift of 16-bit words lets bits of the upper byte into the lower; the mask drops them.
    const __m512i shift = _mm512_set_epi64(
        0x0004000400040004, 0x0004000400040004, 0, 0, 0x0004000400040004, 0x0004000400040004, 0, 0);
    const __m512i low = _mm512_set1_epi8(0x0F);
    const __m512i first = _mm512_shuffle_i64x2(codes, codes, _MM_SHUFFLE(2, 2, 0, 0));
    const __m512i second = _mm512_shuffle_i64x2(codes, codes, _MM_SHUFFLE(3, 3, 1, 1));
    half[0] = _mm512_and_si512(_mm512_srlv_epi16(first, shift), low);
    half[1] = _mm512_and_si512(_mm512_srlv_epi16(second, shift), low);
}

struct FormatQ4_K {
    static constexpr Kind kKind = Kind::kMinimum;
    static constexpr int kOffset = 0;
    static constexpr int kStepGroups = 2;
    static constexpr int kStepBytes = sizeof(quant::BlockQ4_K);
    static constexpr int kBlockBytes = kStepBytes;
    static constexpr bool kPrefetch = false;

    template <bool kTail>
    static void unpack(const std::uint8_t* p, int /*n_blocks*/, Unpacked* out) {
        const __m512 scales = super_block_scales(p);
        out[0].scales = _mm512_castps512_ps256(scales);
        out[1].scales = _mm512_extractf32x8_ps(scales, 1);
        unpack_nibble_pairs(p + 16, out[0].half);
        unpack_nibble_pairs(p + 80, out[1].half);
    }
};

struct FormatQ5_K {
    static constexpr Kind kKind = Kind::kMinimum;
    static constexpr int kOffset = 0;
    static constexpr int kStepGroups = 2;
    static constexpr int kStepBytes = sizeof(quant::BlockQ5_K);
    static constexpr int kBlockBytes = kStepBytes;
    static constexpr bool kPrefetch = false;

    // Bit g of qh[j] is the fifth bit of weight 32 g + j: the same 16 bytes serve four blocks, each
    // lane testing its own bit.
    static __m512i add_fifth_bits(__m512i codes, const std::uint8_t* qh, __m512i bit) {
        const __m512i bits =
            _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(qh)));
        return _mm512_mask_add_epi8(
            codes, _mm512_test_epi8_mask(bits, bit), codes, _mm512_set1_epi8(0x10));
    }

    template <bool kTail>
    static void unpack(const std::uint8_t* p, int /*n_blocks*/, Unpacked* out) {
        const __m512 scales = super_block_scales(p);
        out[0].scales = _mm512_castps512_ps256(scales);
        out[1].scales = _mm512_extractf32x8_ps(scales, 1);
        const std::uint8_t* qh = p + 16;
        const __m512i bits_low = _mm512_set_epi64(0x0808080808080808,
                                                  0x0808080808080808,
                                                  0x0404040404040404,
                                                  0x0404040404040404,
                                                  0x0202020202020202,
                                                  0x0202020202020202,
                                                  0x0101010101010101,
                                                  0x0101010101010101);
        const __m512i bits_high = _mm512_slli_epi64(bits_low, 4);
        for (int part = 0; part < 2; ++part) {
            unpack_nibble_pairs(p + 48 + part * 64, out[part].half);
            const __m512i bit = part == 0 ? bits_low : bits_high;
            out[part].half[0] = add_fifth_bits(out[part].half[0], qh, bit);
            out[part].half[1] = add_fifth_bits(out[part].half[1], qh + 16, bit);
        }
    }
};

struct FormatQ6_K {
    static constexpr Kind kKind = Kind::kHalfScales;
    static constexpr int kOffset = 32;
    static constexpr int kStepGroups = 2;
    static constexpr int kStepBytes = sizeof(quant::BlockQ6_K);
    static constexpr int kBlockBytes = kStepBytes;
    static constexpr bool kPrefetch = false;

    // Nibbles [low low high high] of lanes already in place; 16 bytes of qh hold the two high bits
    // of the four blocks one above the other, so a rotation per lane brings them to bits 4 and 5.
    static __m512i join(__m512i lanes, const std::uint8_t* qh) {
        const __m512i shift = _mm512_set_epi64(0x0004000400040004,
                                               0x0004000400040004,
                                               0x0004000400040004,
                                               0x0004000400040004,
                                               0,
                                               0,
                                               0,
                                               0);
        const __m512i rotate = _mm512_set_epi32(30, 30, 30, 30, 0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4);
        const __m512i high = _mm512_rolv_epi32(
            _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(qh))), rotate);
        const __m512i low =
            _mm512_and_si512(_mm512_srlv_epi16(lanes, shift), _mm512_set1_epi8(0x0F));
        return _mm512_or_si512(low, _mm512_and_si512(high, _mm512_set1_epi8(0x30)));
    }

    template <bool kTail>
    static void unpack(const std::uint8_t* p, int /*n_blocks*/, Unpacked* out) {
        // Scales of halves 0 and 1 of blocks 0..3, for the first and second 128 weights.
        const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
        const __m128i codes =
            _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 192)), order);
        std::uint16_t half = 0;
        __builtin_memcpy(&half, p + 208, sizeof half);
        const __m512 d = _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
        const __m512 scales = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)), d);
        out[0].scales = _mm512_castps512_ps256(scales);
        out[1].scales = _mm512_extractf32x8_ps(scales, 1);
        for (int part = 0; part < 2; ++part) {
            const __m512i ql = _mm512_loadu_si512(p + part * 64);
            const std::uint8_t* qh = p + 128 + part * 32;
            out[part].half[0] = join(_mm512_shuffle_i64x2(ql, ql, _MM_SHUFFLE(2, 0, 2, 0)), qh);
            out[part].half[1] =
                join(_mm512_shuffle_i64x2(ql, ql, _MM_SHUFFLE(3, 1, 3, 1)), qh + 16);
        }
    }
};

}  // namespace ballast::kernels::avx512
