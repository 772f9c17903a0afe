// SPDX-License-Identifier: MIT
// 16 × 16 dwords in registers: row r, dword d becomes row d, dword r.
#pragma once

#include <immintrin.h>

namespace ballast::kernels::avx512 {

/// Four rounds of pairwise interleaving, 64 shuffles: dwords, pairs of dwords, then 16-byte lanes
/// twice.
inline void transpose_16x16(__m512i* rows) {
    __m512i t[16];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        const __m512i a = _mm512_unpacklo_epi32(rows[4 * i], rows[4 * i + 1]);
        const __m512i b = _mm512_unpackhi_epi32(rows[4 * i], rows[4 * i + 1]);
        const __m512i c = _mm512_unpacklo_epi32(rows[4 * i + 2], rows[4 * i + 3]);
        const __m512i d = _mm512_unpackhi_epi32(rows[4 * i + 2], rows[4 * i + 3]);
        // t[4 i + j], lane L: dword 4 L + j of rows 4 i … 4 i + 3.
        t[4 * i] = _mm512_unpacklo_epi64(a, c);
        t[4 * i + 1] = _mm512_unpackhi_epi64(a, c);
        t[4 * i + 2] = _mm512_unpacklo_epi64(b, d);
        t[4 * i + 3] = _mm512_unpackhi_epi64(b, d);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
        const __m512i even01 = _mm512_shuffle_i64x2(t[j], t[4 + j], 0x88);
        const __m512i odd01 = _mm512_shuffle_i64x2(t[j], t[4 + j], 0xDD);
        const __m512i even23 = _mm512_shuffle_i64x2(t[8 + j], t[12 + j], 0x88);
        const __m512i odd23 = _mm512_shuffle_i64x2(t[8 + j], t[12 + j], 0xDD);
        rows[j] = _mm512_shuffle_i64x2(even01, even23, 0x88);
        rows[4 + j] = _mm512_shuffle_i64x2(odd01, odd23, 0x88);
        rows[8 + j] = _mm512_shuffle_i64x2(even01, even23, 0xDD);
        rows[12 + j] = _mm512_shuffle_i64x2(odd01, odd23, 0xDD);
    }
}

}  // namespace ballast::kernels::avx512
