// SPDX-License-Identifier: MIT
// exp and tanh of 16 floats.
#pragma once

#include <cstddef>

#include <immintrin.h>

namespace ballast::kernels::avx512 {

/// e^x within 2 ulp where the result is a normal float; 0 below −104, infinity above 88.73; NaN
/// stays NaN. x = n·ln 2 + r with |r| ≤ ln 2 / 2; the polynomial for e^r is that of Cephes expf,
/// and ln 2 is split so that n·(upper part) is exact.
inline __m512 exp16(__m512 x) {
    // The second operand is returned for NaN.
    x = _mm512_min_ps(_mm512_set1_ps(89.0F), _mm512_max_ps(_mm512_set1_ps(-104.0F), x));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504F)),
                                          _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375F), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4F), r);
    __m512 p = _mm512_set1_ps(1.9875691500e-4F);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1F));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
    return _mm512_scalef_ps(_mm512_add_ps(p, _mm512_set1_ps(1.0F)), n);
}

/// tanh within 4 ulp: an odd polynomial (Cephes tanhf) where 1 − 2 / (e^2x + 1) would cancel.
inline __m512 tanh16(__m512 x) {
    const __m512 e = exp16(_mm512_add_ps(x, x));
    const __m512 one = _mm512_set1_ps(1.0F);
    const __m512 large =
        _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0F), _mm512_add_ps(e, one)));
    const __m512 z = _mm512_mul_ps(x, x);
    __m512 p = _mm512_set1_ps(-5.70498872745e-3F);
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(2.06390887954e-2F));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(-5.37397155531e-2F));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(1.33314422036e-1F));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(-3.33332819422e-1F));
    const __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(p, z), x, x);
    const __mmask16 is_small =
        _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(0.625F), _CMP_LT_OQ);
    return _mm512_mask_mov_ps(large, is_small, small);
}

/// The first n of 16 lanes (all for n ≥ 16, none for n ≤ 0).
inline __mmask16 first_lanes(std::ptrdiff_t n) {
    return n >= 16 ? 0xFFFF : (n <= 0 ? 0 : static_cast<__mmask16>((1U << n) - 1U));
}

}  // namespace ballast::kernels::avx512
