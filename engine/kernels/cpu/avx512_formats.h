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

}  // namespace ballast::kernels::avx512
