// SPDX-License-Identifier: MIT
// Element-wise kernels (simd_elementwise.h) and the packing of activations.
#include <immintrin.h>

#include "engine/kernels/cpu/avx512.h"
#include "engine/kernels/cpu/avx512_simd.h"
#include "engine/kernels/cpu/packed_activations.h"
#include "engine/kernels/cpu/simd_elementwise.h"

namespace ballast::kernels::avx512 {

void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon, float* out) {
    simd::rms_norm<Simd>(x, weight, n, epsilon, out);
}

void add(float* x, const float* y, std::size_t n) {
    simd::add<Simd>(x, y, n);
}

void silu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
    simd::silu_multiply<Simd>(gate, up, n, out);
}

void gelu_multiply(const float* gate, const float* up, std::size_t n, float* out) {
    simd::gelu_multiply<Simd>(gate, up, n, out);
}

void rope(
    float* head, const float* cos, const float* sin, std::size_t n_rotated, bool interleaved) {
    simd::rope<Simd>(head, cos, sin, n_rotated, interleaved);
}

void store_kv(const float* x, std::size_t n, KvType type, std::byte* out) {
    simd::store_kv<Simd>(x, n, type, out);
}

void pack(const float* x, std::size_t k, std::byte* out) {
    auto* groups = reinterpret_cast<PackedGroup*>(out);
    const std::size_t n_blocks = k / kBlockElements;
    if (n_blocks % kGroupBlocks != 0) {
        __builtin_memset(&groups[n_blocks / kGroupBlocks], 0, sizeof(PackedGroup));
    }
    const __m512 limit = _mm512_set1_ps(kActivationSteps);
    const __m512 lowest = _mm512_set1_ps(-kActivationSteps);
    for (std::size_t block = 0; block < n_blocks; ++block) {
        PackedGroup& group = groups[block / kGroupBlocks];
        const std::size_t b = block % kGroupBlocks;
        if (b == 0) {
            __builtin_memset(group.unused, 0, sizeof group.unused);
        }
        const __m512 v[2] = {_mm512_loadu_ps(x + block * kBlockElements),
                             _mm512_loadu_ps(x + block * kBlockElements + kHalfElements)};
        const float largest =
            _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(v[0]), _mm512_abs_ps(v[1])));
        const float scale = largest / kActivationSteps;
        // Where the scale is zero the quotients are NaN or infinite; the mask makes them zero.
        const __mmask16 usable = scale > 0.0F ? 0xFFFF : 0;
        int sums[2] = {0, 0};
        for (int half = 0; half < 2; ++half) {
            const __m512 steps = _mm512_maskz_div_ps(usable, v[half], _mm512_set1_ps(scale));
            const __m512i whole =
                _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(steps, lowest), limit));
            // split_planes(), sixteen at once.
            const __m512i high =
                _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
            const __m512i low = _mm512_max_epi32(
                _mm512_sub_epi32(whole, _mm512_slli_epi32(high, 8)), _mm512_set1_epi32(-127));
            const __m128i bytes[2] = {_mm512_cvtepi32_epi8(high), _mm512_cvtepi32_epi8(low)};
            const __m128i zero = _mm_setzero_si128();
            const __m128i ones = _mm_set1_epi8(1);
            __m128i lanes = _mm_slli_epi32(_mm_dpbusd_epi32(zero, ones, bytes[0]), 8);
            lanes = _mm_sub_epi32(zero, _mm_dpbusd_epi32(lanes, ones, bytes[1]));
            _mm_store_si128(reinterpret_cast<__m128i*>(group.q[0][half][b]), bytes[0]);
            _mm_store_si128(reinterpret_cast<__m128i*>(group.q[1][half][b]), bytes[1]);
            _mm_store_si128(reinterpret_cast<__m128i*>(&group.negative_lane_sum[half][b * 4]),
                            lanes);
            const __m128i pairs = _mm_add_epi32(lanes, _mm_shuffle_epi32(lanes, 0x4E));
            sums[half] = -_mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 0xB1)));
        }
        group.scale[b] = scale;
        group.scaled_sum[b] = scale * static_cast<float>(sums[0] + sums[1]);
        group.negative_sum[b] = -(sums[0] + sums[1]);
        group.negative_half_sum[0][b] = -sums[0];
        group.negative_half_sum[1][b] = -sums[1];
    }
}

}  // namespace ballast::kernels::avx512
