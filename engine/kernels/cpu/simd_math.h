// SPDX-License-Identifier: MIT
// exp and tanh of a register of floats, once for all instruction sets. Everything in the simd_*.h
// files is a template over an instruction set's Simd, so that no function compiled for a wider set
// can be taken by the linker for a narrower one.
#pragma once

namespace ballast::kernels::simd {

/// e^x within 2 ulp where the result is a normal float; 0 below −104, infinity above 88.73; NaN
/// stays NaN. x = n·ln 2 + r with |r| ≤ ln 2 / 2; the polynomial for e^r is that of Cephes expf,
/// and ln 2 is split so that n·(upper part) is exact.
template <class Simd>
inline typename Simd::Float exp(typename Simd::Float x) {
    x = Simd::min(Simd::set(89.0F), Simd::max(Simd::set(-104.0F), x));
    const auto n = Simd::round(Simd::mul(x, Simd::set(1.44269504F)));
    auto r = Simd::fnma(n, Simd::set(0.693359375F), x);
    r = Simd::fnma(n, Simd::set(-2.12194440e-4F), r);
    auto p = Simd::set(1.9875691500e-4F);
    p = Simd::fma(p, r, Simd::set(1.3981999507e-3F));
    p = Simd::fma(p, r, Simd::set(8.3334519073e-3F));
    p = Simd::fma(p, r, Simd::set(4.1665795894e-2F));
    p = Simd::fma(p, r, Simd::set(1.6666665459e-1F));
    p = Simd::fma(p, r, Simd::set(5.0000001201e-1F));
    p = Simd::fma(p, Simd::mul(r, r), r);
    return Simd::scale_by_power(Simd::add(p, Simd::set(1.0F)), n);
}

/// tanh within 4 ulp: an odd polynomial (Cephes tanhf) where 1 − 2 / (e^2x + 1) would cancel.
template <class Simd>
inline typename Simd::Float tanh(typename Simd::Float x) {
    const auto one = Simd::set(1.0F);
    const auto e = exp<Simd>(Simd::add(x, x));
    const auto large = Simd::sub(one, Simd::div(Simd::set(2.0F), Simd::add(e, one)));
    const auto z = Simd::mul(x, x);
    auto p = Simd::set(-5.70498872745e-3F);
    p = Simd::fma(p, z, Simd::set(2.06390887954e-2F));
    p = Simd::fma(p, z, Simd::set(-5.37397155531e-2F));
    p = Simd::fma(p, z, Simd::set(1.33314422036e-1F));
    p = Simd::fma(p, z, Simd::set(-3.33332819422e-1F));
    const auto small = Simd::fma(Simd::mul(p, z), x, x);
    return Simd::select(Simd::less(Simd::abs(x), Simd::set(0.625F)), small, large);
}

}  // namespace ballast::kernels::simd
