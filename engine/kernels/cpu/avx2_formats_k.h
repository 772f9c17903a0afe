// SPDX-License-Identifier: MIT
// The formats with super-blocks of 256 weights: a step is two groups of 128.
#pragma once

#include "engine/kernels/cpu/avx2_formats.h"
#include "engine/quant/blocks.h"

namespace ballast::kernels::avx2 {

/// Scales and minima of a Q4_K or Q5_K super-block, times d and −dmin:
/// [4 scales | 4 minima] of the first 128 weights, then of the second. The 6-bit fields are drawn
/// at BlockQ4_K; as dwords the header is [d dmin][s0 s1 s2 s3][m0 m1 m2 m3][low nibbles of 4..7].
inline void super_block_scales(const std::uint8_t* p, Unpacked* out) {
    const __m128i header = load_16(p);
    const __m128i low =
        _mm_and_si128(_mm_srlv_epi32(_mm_shuffle_epi32(header, _MM_SHUFFLE(3, 3, 2, 1)),
                                     _mm_setr_epi32(0, 0, 0, 4)),
                      _mm_setr_epi32(0x3F3F3F3F, 0x3F3F3F3F, 0x0F0F0F0F, 0x0F0F0F0F));
    const __m128i high =
        _mm_and_si128(_mm_srli_epi32(_mm_shuffle_epi32(header, _MM_SHUFFLE(2, 1, 0, 0)), 2),
                      _mm_setr_epi32(0, 0, 0x30303030, 0x30303030));
    const __m128i fields = _mm_or_si128(low, high);
    const __m128 d = _mm_xor_ps(_mm_cvtph_ps(header), _mm_setr_ps(0.0F, -0.0F, 0.0F, 0.0F));
    const __m256 factors = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(d),
                                                    _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
    out[0].scales = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(fields)), factors);
    out[1].scales = _mm256_mul_ps(
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(fields, fields))), factors);
}

/// 16 bytes [high nibbles | low nibbles] serve two blocks: low in lane 0, high in lane 1. (The
/// shift lets bits of the upper byte into the lower; the mask drops them.)
inline __m256i nibbles_of_pair(const std::uint8_t* qs) {
    const __m256i shifted = _mm256_srlv_epi64(load_twice(qs), _mm256_setr_epi64x(0, 0, 4, 4));
    return _mm256_and_si256(shifted, _mm256_set1_epi8(0x0F));
}

template <bool kFifth>
struct SuperBlockFormat {
    static constexpr Kind kKind = Kind::kMinimum;
    static constexpr int kOffset = 0;
    static constexpr int kMaddSteps = kFifth ? 4 : 8;
    static constexpr int kStepGroups = 2;
    static constexpr int kStepBytes = kFifth ? 176 : 144;

    static void unpack(const std::uint8_t* p, int /*n_blocks*/, Unpacked* out) {
        super_block_scales(p, out);
        const std::uint8_t* qs = p + (kFifth ? 48 : 16);
        for (int i = 0; i < 8; ++i) {
            const int part = i / 4;
            const int pair = i / 2 % 2;
            const int half = i % 2;
            __m256i codes = nibbles_of_pair(qs + part * 64 + pair * 32 + half * 16);
            if constexpr (kFifth) {
                // Bit g of qh[j] belongs to weight j of block g = 4 · part + 2 · pair (+ 1).
                const auto low = static_cast<char>(1 << (4 * part + 2 * pair));
                const auto high = static_cast<char>(2 << (4 * part + 2 * pair));
                const __m256i bit = _mm256_set_m128i(_mm_set1_epi8(high), _mm_set1_epi8(low));
                codes = _mm256_or_si256(codes, fifth(load_twice(p + 16 + 16 * half), bit));
            }
            out[part].half[half][pair] = codes;
        }
    }
};

using FormatQ4_K = SuperBlockFormat<false>;
using FormatQ5_K = SuperBlockFormat<true>;

struct FormatQ6_K {
    static constexpr Kind kKind = Kind::kHalfScales;
    static constexpr int kOffset = 32;
    static constexpr int kMaddSteps = 2;
    static constexpr int kStepGroups = 2;
    static constexpr int kStepBytes = sizeof(quant::BlockQ6_K);

    static void unpack(const std::uint8_t* p, int /*n_blocks*/, Unpacked* out) {
        // Scales of halves 0 and 1 of blocks 0..3, for the first and second 128 weights.
        const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
        const __m128i scales = _mm_shuffle_epi8(load_16(p + 192), order);
        const __m256 d =
            _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(load_as<std::uint16_t>(p + 208))));
        out[0].scales = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(scales)), d);
        out[1].scales = _mm256_mul_ps(
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(scales, scales))), d);
        const __m256i low = _mm256_set1_epi8(0x0F);
        const __m256i high = _mm256_set1_epi8(0x30);
        for (int i = 0; i < 4; ++i) {
            const int part = i / 2;
            const int half = i % 2;
            const std::uint8_t* ql = p + part * 64 + half * 16;
            // Low nibbles are blocks 0 and 1, high ones blocks 2 and 3; the four blocks' high bits
            // stand one above the other in qh.
            const __m256i codes = _mm256_set_m128i(load_16(ql + 32), load_16(ql));
            const __m256i qh = load_twice(p + 128 + part * 32 + half * 16);
            const __m256i high01 = _mm256_sllv_epi64(qh, _mm256_setr_epi64x(4, 4, 2, 2));
            const __m256i high23 = _mm256_srlv_epi64(qh, _mm256_setr_epi64x(0, 0, 2, 2));
            out[part].half[half][0] =
                _mm256_or_si256(_mm256_and_si256(codes, low), _mm256_and_si256(high01, high));
            out[part].half[half][1] = _mm256_or_si256(
                _mm256_and_si256(_mm256_srli_epi16(codes, 4), low), _mm256_and_si256(high23, high));
        }
    }
};

}  // namespace ballast::kernels::avx2
