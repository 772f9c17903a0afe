// SPDX-License-Identifier: MIT
// The formats with super-blocks of 256 weights: a step is two groups of 128.
#pragma once

#include "engine/kernels/cpu/avx512_formats.h"
#include "engine/quant/blocks.h"

namespace ballast::kernels::avx512 {

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
