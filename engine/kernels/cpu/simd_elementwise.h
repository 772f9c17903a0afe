// SPDX-License-Identifier: MIT
// Element-wise kernels over an instruction set's Simd.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/cpu/kernel_table.h"
#include "engine/kernels/cpu/simd_math.h"

namespace ballast::kernels::simd {

/// Calls apply(i, mask) for each register's worth of n elements.
template <class Simd, class Apply>
inline void each(std::size_t n, Apply apply) {
    for (std::size_t i = 0; i < n; i += Simd::kLanes) {
        apply(i, Simd::first(static_cast<std::ptrdiff_t>(n - i)));
    }
}

template <class Simd>
void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon, float* out) {
    typename Simd::Double squares;
    each<Simd>(
        n, [&](std::size_t i, auto mask) { Simd::add_squares(squares, Simd::load(mask, x + i)); });
    const double mean = Simd::sum(squares) / static_cast<double>(n);
    const auto scale =
        static_cast<float>(1.0 / __builtin_sqrt(mean + static_cast<double>(epsilon)));
    each<Simd>(n, [&](std::size_t i, auto mask) {
        const auto scaled = Simd::mul(Simd::load(mask, x + i), Simd::set(scale));
        Simd::store(mask, out + i, Simd::mul(scaled, Simd::load(mask, weight + i)));
    });
}

template <class Simd>
void add(float* x, const float* y, std::size_t n) {
    each<Simd>(n, [&](std::size_t i, auto mask) {
        Simd::store(mask, x + i, Simd::add(Simd::load(mask, x + i), Simd::load(mask, y + i)));
    });
}

/// x / (1 + exp(−z)) · up.
template <class Simd, class Float>
inline Float gated(Float x, Float z, Float up) {
    const Float e = exp<Simd>(Simd::sub(Simd::zero(), z));
    return Simd::mul(Simd::div(x, Simd::add(e, Simd::set(1.0F))), up);
}

template <class Simd>
void silu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
    each<Simd>(n, [&](std::size_t i, auto mask) {
        const auto x = Simd::load(mask, gate + i);
        Simd::store(mask, out + i, gated<Simd>(x, x, Simd::load(mask, up + i)));
    });
}

template <class Simd>
void gelu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
    // x/2 · (1 + tanh u) = x / (1 + exp(−2u)), u = sqrt(2/π) · x · (1 + 0.044715 x²).
    each<Simd>(n, [&](std::size_t i, auto mask) {
        const auto x = Simd::load(mask, gate + i);
        const auto inner = Simd::fma(Simd::mul(Simd::set(0.044715F), x), x, Simd::set(1.0F));
        const auto two_u = Simd::mul(Simd::mul(Simd::set(1.5957691216057308F), x), inner);
        Simd::store(mask, out + i, gated<Simd>(x, two_u, Simd::load(mask, up + i)));
    });
}

template <class Simd>
void rope(
    float* head, const float* cos, const float* sin, std::size_t n_rotated, bool interleaved) {
    const std::size_t n_pairs = n_rotated / 2;
    if (interleaved) {
        each<Simd>(n_rotated, [&](std::size_t i, auto mask) {
            const auto left = static_cast<std::ptrdiff_t>((n_rotated - i) / 2);
            const auto x = Simd::load(mask, head + i);
            const auto c = Simd::load_doubled(cos + i / 2, left);
            const auto s = Simd::load_doubled(sin + i / 2, left);
            Simd::store(mask, head + i, Simd::fma_sub_add(x, c, Simd::mul(Simd::swap_pairs(x), s)));
        });
        return;
    }
    each<Simd>(n_pairs, [&](std::size_t i, auto mask) {
        const auto a = Simd::load(mask, head + i);
        const auto b = Simd::load(mask, head + n_pairs + i);
        const auto c = Simd::load(mask, cos + i);
        const auto s = Simd::load(mask, sin + i);
        Simd::store(mask, head + i, Simd::fms(a, c, Simd::mul(b, s)));
        Simd::store(mask, head + n_pairs + i, Simd::fma(a, s, Simd::mul(b, c)));
    });
}

template <class Simd>
void store_kv(const float* x, std::size_t n, KvType type, std::byte* out) {
    if (type == KvType::kF32) {
        __builtin_memcpy(out, x, n * sizeof(float));
        return;
    }
    each<Simd>(n, [&](std::size_t i, auto mask) {
        Simd::store_halves(mask, out + i * 2, Simd::load(mask, x + i));
    });
}

}  // namespace ballast::kernels::simd
