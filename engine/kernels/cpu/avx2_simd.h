// SPDX-License-Identifier: MIT
// 8 floats at a time: the operations that the code shared between instruction sets (simd_*.h) is
// written in.
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

namespace ballast::kernels::avx2 {

struct Simd {
    static constexpr int kLanes = 8;
    static constexpr int kAttentionRows = 3;
    using Float = __m256;
    using Mask = __m256;  // all bits of a lane, or none
    struct Double {
        __m256d low = _mm256_setzero_pd();
        __m256d high = _mm256_setzero_pd();
    };

    static Float zero() { return _mm256_setzero_ps(); }
    static Float set(float x) { return _mm256_set1_ps(x); }
    static Float load(const float* p) { return _mm256_loadu_ps(p); }
    static void store(float* p, Float x) { _mm256_storeu_ps(p, x); }
    static Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
    static Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
    static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
    static Float div(Float a, Float b) { return _mm256_div_ps(a, b); }
    static Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
    static Float fms(Float a, Float b, Float c) { return _mm256_fmsub_ps(a, b, c); }
    static Float fnma(Float a, Float b, Float c) { return _mm256_fnmadd_ps(a, b, c); }
    /// b where a is NaN or b is.
    static Float max(Float a, Float b) { return _mm256_max_ps(a, b); }
    static Float min(Float a, Float b) { return _mm256_min_ps(a, b); }
    static Float abs(Float a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
    static Float round(Float a) {
        return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    /// a · 2^n for whole n in −152 … 129: by two factors, since 2^n itself may not be a normal
    /// float. A NaN in a stays one whatever n converts to.
    static Float scale_by_power(Float a, Float n) {
        const __m256i whole = _mm256_cvtps_epi32(n);
        const __m256i half = _mm256_srai_epi32(whole, 1);
        return _mm256_mul_ps(_mm256_mul_ps(a, power(half)), power(_mm256_sub_epi32(whole, half)));
    }
    static float sum(Float a) {
        const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
    }
    static float largest(Float a) {
        const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
    }

    /// The first n of 8 lanes (all for n ≥ 8, none for n ≤ 0).
    static Mask first(std::ptrdiff_t n) {
        const int count = n >= 8 ? 8 : (n <= 0 ? 0 : static_cast<int>(n));
        return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count),
                                                      _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
    }
    static Mask and_not(Mask a, Mask b) { return _mm256_andnot_ps(b, a); }
    static Mask less(Float a, Float b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
    static Float select(Mask m, Float yes, Float no) { return _mm256_blendv_ps(no, yes, m); }
    static Float load(Mask m, const float* p) {
        return _mm256_maskload_ps(p, _mm256_castps_si256(m));
    }
    static void store(Mask m, float* p, Float x) {
        _mm256_maskstore_ps(p, _mm256_castps_si256(m), x);
    }

    /// 8 halves; head sizes are multiples of 8, so that n ≥ 8.
    static Float load_halves(const std::byte* p, std::ptrdiff_t /*n*/) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static void store_halves(Mask m, std::byte* p, Float x) {
        const __m128i halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
        const auto lanes = static_cast<unsigned>(_mm256_movemask_ps(m));
        alignas(16) std::byte bytes[16];
        _mm_store_si128(reinterpret_cast<__m128i*>(bytes), halves);
        __builtin_memcpy(p, bytes, static_cast<std::size_t>(__builtin_popcount(lanes)) * 2);
    }

    static void add_squares(Double& sum, Float x) {
        const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
        const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
        sum.low = _mm256_fmadd_pd(low, low, sum.low);
        sum.high = _mm256_fmadd_pd(high, high, sum.high);
    }
    static double sum(const Double& x) {
        const __m256d four = _mm256_add_pd(x.low, x.high);
        const __m128d two =
            _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
        return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
    }

    /// The first n of p[0..3], each twice.
    static Float load_doubled(const float* p, std::ptrdiff_t n) {
        const __m256i index = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
        return _mm256_permutevar8x32_ps(load(first(n < 4 ? n : 4), p), index);
    }
    static Float swap_pairs(Float x) { return _mm256_permute_ps(x, 0xB1); }
    /// a · b − c in even lanes, a · b + c in odd ones.
    static Float fma_sub_add(Float a, Float b, Float c) { return _mm256_fmaddsub_ps(a, b, c); }

    /// kLanes registers of kLanes floats: row r, element d becomes row d, element r.
    static void transpose(Float* rows) {
        Float t[8];
        for (int i = 0; i < 2; ++i) {
            const Float a = _mm256_unpacklo_ps(rows[4 * i], rows[4 * i + 1]);
            const Float b = _mm256_unpackhi_ps(rows[4 * i], rows[4 * i + 1]);
            const Float c = _mm256_unpacklo_ps(rows[4 * i + 2], rows[4 * i + 3]);
            const Float d = _mm256_unpackhi_ps(rows[4 * i + 2], rows[4 * i + 3]);
            // t[4 i + j], lane L: element 4 L + j of rows 4 i … 4 i + 3.
            t[4 * i] = _mm256_shuffle_ps(a, c, 0x44);
            t[4 * i + 1] = _mm256_shuffle_ps(a, c, 0xEE);
            t[4 * i + 2] = _mm256_shuffle_ps(b, d, 0x44);
            t[4 * i + 3] = _mm256_shuffle_ps(b, d, 0xEE);
        }
        for (int j = 0; j < 4; ++j) {
            rows[j] = _mm256_permute2f128_ps(t[j], t[4 + j], 0x20);
            rows[4 + j] = _mm256_permute2f128_ps(t[j], t[4 + j], 0x31);
        }
    }

  private:
    static Float power(__m256i n) {
        return _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
    }
};

}  // namespace ballast::kernels::avx2
