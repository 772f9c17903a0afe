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

namespace {

/// 32 integers that fit a byte, in order. vpackssdw and vpacksswb work within 16-byte lanes; the
/// permutation puts the dwords back in order.
__m256i to_bytes(const __m256i* q) {
    return _mm256_permutevar8x32_epi32(
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])),
        _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/// Minus the sums of every four bytes.
__m256i negative_sums(__m256i bytes) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes),
                             _mm256_set1_epi16(-1));
}

void pack_block(const float* values, PackedGroup& group, int b) {
    if (b == 0) {
        __builtin_memset(group.unused, 0, sizeof group.unused);
    }
    __m256 most = _mm256_setzero_ps();
    for (int i = 0; i < 4; ++i) {
        most = _mm256_max_ps(most, Simd::abs(_mm256_loadu_ps(values + 8 * i)));
    }
    const float scale = Simd::largest(most) / kActivationSteps;
    __m256i high[4];
    __m256i low[4];
    for (int i = 0; i < 4; ++i) {
        // Where the scale is zero the quotients would be NaN or infinite.
        const __m256 steps =
            scale > 0.0F ? _mm256_div_ps(_mm256_loadu_ps(values + 8 * i), _mm256_set1_ps(scale))
                         : _mm256_setzero_ps();
        const __m256i whole = _mm256_cvtps_epi32(
            _mm256_min_ps(_mm256_max_ps(steps, _mm256_set1_ps(-kActivationSteps)),
                          _mm256_set1_ps(kActivationSteps)));
        // split_planes(), eight at once.
        high[i] = _mm256_srai_epi32(_mm256_add_epi32(whole, _mm256_set1_epi32(128)), 8);
        low[i] = _mm256_max_epi32(_mm256_sub_epi32(whole, _mm256_slli_epi32(high[i], 8)),
                                  _mm256_set1_epi32(-127));
    }
    const __m256i bytes[2] = {to_bytes(high), to_bytes(low)};
    alignas(32) std::int32_t lane[8];
    _mm256_store_si256(
        reinterpret_cast<__m256i*>(lane),
        _mm256_add_epi32(_mm256_slli_epi32(negative_sums(bytes[0]), 8), negative_sums(bytes[1])));
    int sums[2] = {0, 0};
    for (int half = 0; half < 2; ++half) {
        for (int i = 0; i < 4; ++i) {
            group.negative_lane_sum[half][b * 4 + i] = lane[half * 4 + i];
            sums[half] += lane[half * 4 + i];
        }
        group.negative_half_sum[half][b] = sums[half];
    }
    for (int plane = 0; plane < 2; ++plane) {
        _mm_store_si128(reinterpret_cast<__m128i*>(group.q[plane][0][b]),
                        _mm256_castsi256_si128(bytes[plane]));
        _mm_store_si128(reinterpret_cast<__m128i*>(group.q[plane][1][b]),
                        _mm256_extracti128_si256(bytes[plane], 1));
    }
    group.scale[b] = scale;
    group.scaled_sum[b] = scale * static_cast<float>(-(sums[0] + sums[1]));
    group.negative_sum[b] = sums[0] + sums[1];
}

}  // namespace

void pack(const float* x, std::size_t k, std::byte* out) {
    auto* groups = reinterpret_cast<PackedGroup*>(out);
    const std::size_t n_blocks = k / kBlockElements;
    if (n_blocks % kGroupBlocks != 0) {
        __builtin_memset(&groups[n_blocks / kGroupBlocks], 0, sizeof(PackedGroup));
    }
    for (std::size_t block = 0; block < n_blocks; ++block) {
        pack_block(x + block * kBlockElements,
                   groups[block / kGroupBlocks],
                   static_cast<int>(block % kGroupBlocks));
    }
}

}  // namespace ballast::kernels::avx2
