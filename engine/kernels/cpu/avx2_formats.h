// SPDX-License-Identifier: MIT
// Weights out of their blocks into registers, in the order of the packed activations: per 128
// weights, for each half, two registers of 16 bytes of two blocks each. Kinds as in AVX-512, but
// Q8_0 stays signed here:
//   kMinimum     w = scale · code + min                     (Q4_1 Q5_1 Q4_K Q5_K)
//   kOffset      w = scale · (code − offset)                (Q4_0 Q5_0)
//   kHalfScales  the same with one scale per 16             (Q6_K)
//   kSigned      w = scale · code                           (Q8_0)
//
// vpmaddubsw adds pairs of unsigned · signed products and saturates at 16 bits. Activations are
// −127 … 127, so codes up to 15, 31 and 63 give at most 3810, 7874 and 16002 a pair: the sums of 8,
// 4 and 2 such results stay below 32767. Q8_0 multiplies |code| ≤ 128 by the activation with the
// code's sign: 2 · 128 · 127 = 32512.
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "engine/kernels/cpu/packed_activations.h"

namespace ballast::kernels::avx2 {

enum class Kind { kMinimum, kOffset, kHalfScales, kSigned };

struct Unpacked {
    __m256i half[2][2];  // [half][blocks 0 and 1, or 2 and 3]
    // [4 scales | 4 minima], or for kHalfScales [4 of first halves | 4 of second halves].
    __m256 scales;
};

/// Stands in for the blocks that the last group of a row lacks.
alignas(32) constexpr std::uint8_t kNoBlock[64] = {};

inline __m128i load_16(const std::uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

inline __m256i load_twice(const std::uint8_t* p) {
    return _mm256_broadcastsi128_si256(load_16(p));
}

template <class T>
inline T load_as(const std::uint8_t* p) {
    T value;
    __builtin_memcpy(&value, p, sizeof value);
    return value;
}

/// Fifth bits: 0x10 in each byte whose bit of `bits` (one byte a byte) is set.
inline __m256i fifth(__m256i bits, __m256i bit) {
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bits, bit), bit),
                            _mm256_set1_epi8(0x10));
}

template <int kBytes, int kQs, int kMin, int kHigh, Kind kFormatKind, int kFormatOffset>
struct NibbleFormat {
    static constexpr Kind kKind = kFormatKind;
    static constexpr int kOffset = kFormatOffset;
    static constexpr int kMaddSteps = kHigh != 0 ? 4 : 8;
    static constexpr int kStepGroups = 1;
    static constexpr int kStepBytes = kGroupBlocks * kBytes;

    static void unpack(const std::uint8_t* p, int n_blocks, Unpacked* out) {
        const std::uint8_t* block[kGroupBlocks];
        for (int b = 0; b < kGroupBlocks; ++b) {
            block[b] = b < n_blocks ? p + b * kBytes : kNoBlock;
        }
        const __m256i low = _mm256_set1_epi8(0x0F);
        for (int pair = 0; pair < 2; ++pair) {
            const std::uint8_t* first = block[2 * pair];
            const std::uint8_t* second = block[2 * pair + 1];
            const __m256i codes = _mm256_set_m128i(load_16(second + kQs), load_16(first + kQs));
            out->half[0][pair] = _mm256_and_si256(codes, low);
            out->half[1][pair] = _mm256_and_si256(_mm256_srli_epi16(codes, 4), low);
            if constexpr (kHigh != 0) {
                const __m256i qh =
                    _mm256_set_m128i(_mm_set1_epi32(load_as<std::int32_t>(second + kHigh)),
                                     _mm_set1_epi32(load_as<std::int32_t>(first + kHigh)));
                // Byte i of a half tests bit i % 8 of byte i / 8 of the half's 16 bits.
                const __m256i spread =
                    _mm256_set_epi64x(0x0101010101010101, 0, 0x0101010101010101, 0);
                const __m256i bit =
                    _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
                const __m256i upper = _mm256_add_epi8(spread, _mm256_set1_epi8(2));
                out->half[0][pair] = _mm256_or_si256(out->half[0][pair],
                                                     fifth(_mm256_shuffle_epi8(qh, spread), bit));
                out->half[1][pair] =
                    _mm256_or_si256(out->half[1][pair], fifth(_mm256_shuffle_epi8(qh, upper), bit));
            }
        }
        const auto field = [&](int b, int at) { return load_as<short>(block[b] + at); };
        out->scales = _mm256_cvtph_ps(_mm_setr_epi16(field(0, 0),
                                                     field(1, 0),
                                                     field(2, 0),
                                                     field(3, 0),
                                                     field(0, kMin),
                                                     field(1, kMin),
                                                     field(2, kMin),
                                                     field(3, kMin)));
    }
};

using FormatQ4_0 = NibbleFormat<18, 2, 0, 0, Kind::kOffset, 8>;
using FormatQ4_1 = NibbleFormat<20, 4, 2, 0, Kind::kMinimum, 0>;
using FormatQ5_0 = NibbleFormat<22, 6, 0, 2, Kind::kOffset, 16>;
using FormatQ5_1 = NibbleFormat<24, 8, 2, 4, Kind::kMinimum, 0>;

struct FormatQ8_0 {
    static constexpr Kind kKind = Kind::kSigned;
    static constexpr int kOffset = 0;
    static constexpr int kMaddSteps = 1;
    static constexpr int kStepGroups = 1;
    static constexpr int kStepBytes = kGroupBlocks * 34;

    static void unpack(const std::uint8_t* p, int n_blocks, Unpacked* out) {
        const std::uint8_t* block[kGroupBlocks];
        for (int b = 0; b < kGroupBlocks; ++b) {
            block[b] = b < n_blocks ? p + b * 34 : kNoBlock;
        }
        for (int half = 0; half < 2; ++half) {
            for (int pair = 0; pair < 2; ++pair) {
                out->half[half][pair] =
                    _mm256_set_m128i(load_16(block[2 * pair + 1] + 2 + 16 * half),
                                     load_16(block[2 * pair] + 2 + 16 * half));
            }
        }
        const auto field = [&](int b) { return load_as<short>(block[b]); };
        out->scales =
            _mm256_cvtph_ps(_mm_setr_epi16(field(0), field(1), field(2), field(3), 0, 0, 0, 0));
    }
};

}  // namespace ballast::kernels::avx2
