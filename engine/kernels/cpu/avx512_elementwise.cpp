// SPDX-License-Identifier: MIT
// Element-wise kernels and the packing of activations.
#include <immintrin.h>

#include "engine/kernels/cpu/avx512.h"
#include "engine/kernels/cpu/avx512_math.h"
#include "engine/kernels/cpu/packed_activations.h"

namespace ballast::kernels::avx512 {
namespace {

/// Calls apply(i, mask) for each 16 of n elements.
template <class Apply>
inline void each_16(std::size_t n, Apply apply) {
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        apply(i, static_cast<__mmask16>(0xFFFF));
    }
    if (i < n) {
        apply(i, first_lanes(static_cast<std::ptrdiff_t>(n - i)));
    }
}

inline __m512d square_sum(__m512d sum, __m256 x) {
    const __m512d wide = _mm512_cvtps_pd(x);
    return _mm512_fmadd_pd(wide, wide, sum);
}

/// x / (1 + exp(−z)) · up.
inline __m512 gated(__m512 x, __m512 z, __m512 up) {
    const __m512 e = exp16(_mm512_sub_ps(_mm512_setzero_ps(), z));
    return _mm512_mul_ps(_mm512_div_ps(x, _mm512_add_ps(e, _mm512_set1_ps(1.0F))), up);
}

}  // namespace

void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon, float* out) {
    __m512d low = _mm512_setzero_pd();
    __m512d high = _mm512_setzero_pd();
    each_16(n, [&](std::size_t i, __mmask16 mask) {
        const __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        low = square_sum(low, _mm512_castps512_ps256(v));
        high = square_sum(high, _mm512_extractf32x8_ps(v, 1));
    });
    const double mean = _mm512_reduce_add_pd(_mm512_add_pd(low, high)) / static_cast<double>(n);
    const auto scale =
        static_cast<float>(1.0 / __builtin_sqrt(mean + static_cast<double>(epsilon)));
    each_16(n, [&](std::size_t i, __mmask16 mask) {
        const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_set1_ps(scale));
        _mm512_mask_storeu_ps(
            out + i, mask, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, weight + i)));
    });
}

void add(float* x, const float* y, std::size_t n) {
    each_16(n, [&](std::size_t i, __mmask16 mask) {
        const __m512 sum =
            _mm512_add_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_maskz_loadu_ps(mask, y + i));
        _mm512_mask_storeu_ps(x + i, mask, sum);
    });
}

void silu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
    each_16(n, [&](std::size_t i, __mmask16 mask) {
        const __m512 x = _mm512_maskz_loadu_ps(mask, gate + i);
        const __m512 y = _mm512_maskz_loadu_ps(mask, up + i);
        _mm512_mask_storeu_ps(out + i, mask, gated(x, x, y));
    });
}

void gelu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
    // x/2 · (1 + tanh u) = x / (1 + exp(−2u)), u = sqrt(2/π) · x · (1 + 0.044715 x²).
    const __m512 two_root = _mm512_set1_ps(1.5957691216057308F);
    const __m512 cubic = _mm512_set1_ps(0.044715F);
    const __m512 one = _mm512_set1_ps(1.0F);
    each_16(n, [&](std::size_t i, __mmask16 mask) {
        const __m512 x = _mm512_maskz_loadu_ps(mask, gate + i);
        const __m512 y = _mm512_maskz_loadu_ps(mask, up + i);
        const __m512 inner = _mm512_fmadd_ps(_mm512_mul_ps(cubic, x), x, one);
        const __m512 two_u = _mm512_mul_ps(_mm512_mul_ps(two_root, x), inner);
        _mm512_mask_storeu_ps(out + i, mask, gated(x, two_u, y));
    });
}

void rope(
    float* head, const float* cos, const float* sin, std::size_t n_rotated, bool interleaved) {
    const std::size_t n_pairs = n_rotated / 2;
    if (!interleaved) {
        each_16(n_pairs, [&](std::size_t i, __mmask16 mask) {
            const __m512 a = _mm512_maskz_loadu_ps(mask, head + i);
            const __m512 b = _mm512_maskz_loadu_ps(mask, head + n_pairs + i);
            const __m512 c = _mm512_maskz_loadu_ps(mask, cos + i);
            const __m512 s = _mm512_maskz_loadu_ps(mask, sin + i);
            _mm512_mask_storeu_ps(head + i, mask, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
            _mm512_mask_storeu_ps(
                head + n_pairs + i, mask, _mm512_fmadd_ps(a, s, _mm512_mul_ps(b, c)));
        });
        return;
    }
    // Eight pairs a register: cos and sin are doubled, and fmaddsub subtracts in even lanes.
    const __m512i doubled = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    each_16(n_rotated, [&](std::size_t i, __mmask16 mask) {
        const __mmask16 pairs =
            first_lanes(static_cast<std::ptrdiff_t>((n_rotated - i) / 2)) & 0xFF;
        const __m512 x = _mm512_maskz_loadu_ps(mask, head + i);
        const __m512 c = _mm512_permutexvar_ps(doubled, _mm512_maskz_loadu_ps(pairs, cos + i / 2));
        const __m512 s = _mm512_permutexvar_ps(doubled, _mm512_maskz_loadu_ps(pairs, sin + i / 2));
        const __m512 swapped = _mm512_permute_ps(x, 0xB1);
        _mm512_mask_storeu_ps(head + i, mask, _mm512_fmaddsub_ps(x, c, _mm512_mul_ps(swapped, s)));
    });
}

void store_kv(const float* x, std::size_t n, KvType type, std::byte* out) {
    if (type == KvType::kF32) {
        __builtin_memcpy(out, x, n * sizeof(float));
        return;
    }
    each_16(n, [&](std::size_t i, __mmask16 mask) {
        const __m256i halves =
            _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm256_mask_storeu_epi16(out + i * 2, mask, halves);
    });
}

void pack(const float* x, std::size_t k, std::byte* out) {
    auto* groups = reinterpret_cast<PackedGroup*>(out);
    const std::size_t n_blocks = k / kBlockElements;
    if (n_blocks % kGroupBlocks != 0) {
        __builtin_memset(&groups[n_blocks / kGroupBlocks], 0, sizeof(PackedGroup));
    }
    const __m512 limit = _mm512_set1_ps(127.0F);
    const __m512 lowest = _mm512_set1_ps(-127.0F);
    for (std::size_t block = 0; block < n_blocks; ++block) {
        PackedGroup& group = groups[block / kGroupBlocks];
        const std::size_t b = block % kGroupBlocks;
        const __m512 v[2] = {_mm512_loadu_ps(x + block * kBlockElements),
                             _mm512_loadu_ps(x + block * kBlockElements + kHalfElements)};
        const float largest =
            _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(v[0]), _mm512_abs_ps(v[1])));
        const float scale = largest / 127.0F;
        // Where the scale is zero the quotients are NaN or infinite; the mask makes them zero.
        const __mmask16 usable = scale > 0.0F ? 0xFFFF : 0;
        int sums[2] = {0, 0};
        for (int half = 0; half < 2; ++half) {
            const __m512 steps = _mm512_maskz_div_ps(usable, v[half], _mm512_set1_ps(scale));
            const __m512i q =
                _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(steps, lowest), limit));
            const __m128i bytes = _mm512_cvtepi32_epi8(q);
            _mm_store_si128(reinterpret_cast<__m128i*>(group.q[half][b]), bytes);
            const __m128i lanes = _mm_dpbusd_epi32(_mm_setzero_si128(), _mm_set1_epi8(1), bytes);
            _mm_storel_epi64(reinterpret_cast<__m128i*>(&group.negative_lane_sum[half][b * 4]),
                             _mm_cvtepi32_epi16(_mm_sub_epi32(_mm_setzero_si128(), lanes)));
            sums[half] = _mm512_reduce_add_epi32(q);
        }
        group.scale[b] = scale;
        group.scaled_sum[b] = scale * static_cast<float>(sums[0] + sums[1]);
        group.negative_sum[b] = -(sums[0] + sums[1]);
        group.negative_half_sum[0][b] = static_cast<std::int16_t>(-sums[0]);
        group.negative_half_sum[1][b] = static_cast<std::int16_t>(-sums[1]);
    }
}

}  // namespace ballast::kernels::avx512
