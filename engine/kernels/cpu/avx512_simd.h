// SPDX-License-Identifier: MIT
// 16 floats at a time: the operations that the code shared between instruction sets (simd_*.h) is
// written in.
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "engine/kernels/cpu/avx512_transpose.h"

namespace ballast::kernels::avx512 {

/// The first n of 16 lanes (all for n ≥ 16, none for n ≤ 0).
inline __mmask16 first_lanes(std::ptrdiff_t n) {
    return n >= 16 ? 0xFFFF : (n <= 0 ? 0 : static_cast<__mmask16>((1U << n) - 1U));
}

struct Simd {
    static constexpr int kLanes = 16;
    static constexpr int kAttentionRows = 6;
    using Float = __m512;
    using Mask = __mmask16;
    struct Double {
        __m512d low = _mm512_setzero_pd();
        __m512d high = _mm512_setzero_pd();
    };

    static Float zero() { return _mm512_setzero_ps(); }
    static Float set(float x) { return _mm512_set1_ps(x); }
    static Float load(const float* p) { return _mm512_loadu_ps(p); }
    static void store(float* p, Float x) { _mm512_storeu_ps(p, x); }
    static Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
    static Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
    static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
    static Float div(Float a, Float b) { return _mm512_div_ps(a, b); }
    static Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
    static Float fms(Float a, Float b, Float c) { return _mm512_fmsub_ps(a, b, c); }
    static Float fnma(Float a, Float b, Float c) { return _mm512_fnmadd_ps(a, b, c); }
    /// b where a is NaN or b is.
    static Float max(Float a, Float b) { return _mm512_max_ps(a, b); }
    static Float min(Float a, Float b) { return _mm512_min_ps(a, b); }
    static Float abs(Float a) { return _mm512_abs_ps(a); }
    static Float round(Float a) {
        return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    /// a · 2^n for whole n in −152 … 129.
    static Float scale_by_power(Float a, Float n) { return _mm512_scalef_ps(a, n); }
    static float sum(Float a) { return _mm512_reduce_add_ps(a); }
    static float largest(Float a) { return _mm512_reduce_max_ps(a); }

    static Mask first(std::ptrdiff_t n) { return first_lanes(n); }
    static Mask and_not(Mask a, Mask b) { return static_cast<Mask>(a & ~b); }
    static Mask less(Float a, Float b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
    static Float select(Mask m, Float yes, Float no) { return _mm512_mask_mov_ps(no, m, yes); }
    static Float load(Mask m, const float* p) { return _mm512_maskz_loadu_ps(m, p); }
    static void store(Mask m, float* p, Float x) { _mm512_mask_storeu_ps(p, m, x); }

    /// 16 halves; head sizes are multiples of 8, so n may be 8.
    static Float load_halves(const std::byte* p, std::ptrdiff_t n) {
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p));
    }
    static void store_halves(Mask m, std::byte* p, Float x) {
        _mm256_mask_storeu_epi16(p, m, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }

    static void add_squares(Double& sum, Float x) {
        const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
        const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
        sum.low = _mm512_fmadd_pd(low, low, sum.low);
        sum.high = _mm512_fmadd_pd(high, high, sum.high);
    }
    static double sum(const Double& x) {
        return _mm512_reduce_add_pd(_mm512_add_pd(x.low, x.high));
    }

    /// The first n of p[0..7], each twice.
    static Float load_doubled(const float* p, std::ptrdiff_t n) {
        const __m512i index = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
        return _mm512_permutexvar_ps(index, load(static_cast<Mask>(first_lanes(n) & 0xFF), p));
    }
    static Float swap_pairs(Float x) { return _mm512_permute_ps(x, 0xB1); }
    /// a · b − c in even lanes, a · b + c in odd ones.
    static Float fma_sub_add(Float a, Float b, Float c) { return _mm512_fmaddsub_ps(a, b, c); }

    /// kLanes registers of kLanes floats: row r, element d becomes row d, element r.
    static void transpose(Float* rows) {
        __m512i bits[kLanes];
        for (int i = 0; i < kLanes; ++i) {
            bits[i] = _mm512_castps_si512(rows[i]);
        }
        transpose_16x16(bits);
        for (int i = 0; i < kLanes; ++i) {
            rows[i] = _mm512_castsi512_ps(bits[i]);
        }
    }
};

}  // namespace ballast::kernels::avx512
