// SPDX-License-Identifier: MIT
// Element-wise kernels (simd_elementwise.h) and the packing of activations.
#include <immintrin.h>

#include "engine/kernels/cpu/avx2.h"
#include "engine/kernels/cpu/avx2_simd.h"
#include "engine/kernels/cpu/packed_activations.h"
#include "engine/kernels/cpu/simd_elementwise.h"

namespace ballast::kernels::avx2 {

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
    // vpackssdw and vpacksswb work within 16-byte lanes; this puts the dwords back in order.
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (std::size_t block = 0; block < n_blocks; ++block) {
        PackedGroup& group = groups[block / kGroupBlocks];
        const std::size_t b = block % kGroupBlocks;
        const float* values = x + block * kBlockElements;
        __m256 most = _mm256_setzero_ps();
        for (int i = 0; i < 4; ++i) {
            most = _mm256_max_ps(most, Simd::abs(_mm256_loadu_ps(values + 8 * i)));
        }
        const float scale = Simd::largest(most) / 127.0F;
        __m256i q[4];
        for (int i = 0; i < 4; ++i) {
            // Where the scale is zero the quotients would be NaN or infinite.
            const __m256 steps =
                scale > 0.0F ? _mm256_div_ps(_mm256_loadu_ps(values + 8 * i), _mm256_set1_ps(scale))
                             : _mm256_setzero_ps();
            q[i] = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(steps, _mm256_set1_ps(-127.0F)),
                                                    _mm256_set1_ps(127.0F)));
        }
        const __m256i bytes = _mm256_permutevar8x32_epi32(
            _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])),
            order);
        const __m256i lanes = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes),
                                                _mm256_set1_epi16(-1));
        alignas(32) std::int32_t lane[8];
        _mm256_store_si256(reinterpret_cast<__m256i*>(lane), lanes);
        int sums[2] = {0, 0};
        for (int half = 0; half < 2; ++half) {
            for (int i = 0; i < 4; ++i) {
                const int sum = lane[half * 4 + i];
                group.negative_lane_sum[half][b * 4 + static_cast<std::size_t>(i)] =
                    static_cast<std::int16_t>(sum);
                sums[half] += sum;
            }
            group.negative_half_sum[half][b] = static_cast<std::int16_t>(sums[half]);
        }
        _mm_store_si128(reinterpret_cast<__m128i*>(group.q[0][b]), _mm256_castsi256_si128(bytes));
        _mm_store_si128(reinterpret_cast<__m128i*>(group.q[1][b]),
                        _mm256_extracti128_si256(bytes, 1));
        group.scale[b] = scale;
        group.scaled_sum[b] = scale * static_cast<float>(-(sums[0] + sums[1]));
        group.negative_sum[b] = sums[0] + sums[1];
    }
}

}  // namespace ballast::kernels::avx2
