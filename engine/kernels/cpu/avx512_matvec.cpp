// SPDX-License-Identifier: MIT
// Decode: one weight row at a time against up to eight columns. Memory bandwidth is the limit, so a
// row is one contiguous stream (rows taken together would be several streams, which the hardware
// prefetchers follow badly), and the next kilobytes of that stream are asked for ahead of time.
//
// Bits: each column has its own accumulators and meets the same operations in the same order
// whatever the number of columns.
#include <immintrin.h>

#include "engine/kernels/cpu/avx512.h"
#include "engine/kernels/cpu/avx512_formats.h"
#include "engine/kernels/cpu/avx512_formats_k.h"

namespace ballast::kernels::avx512 {
namespace {

// Far enough to cover the memory's latency at full bandwidth (100 ns · 30 GB/s = 3 KB).
constexpr int kPrefetchBytes = 3072;

struct Accumulator {
    __m512 dot = _mm512_setzero_ps();
    __m256 min = _mm256_setzero_ps();  // upper half: scaled_sum · minimum
};

// Four lanes a block: element b of the source goes to lanes 4b … 4b + 3.
inline __m512i lane_index() {
    return _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
}

inline __m512 spread(__m256 x, __m512i index) {
    return _mm512_permutexvar_ps(index, _mm512_castps256_ps512(x));
}

/// Minus offset · Σq of each lane, so that the lanes of a dot product hold its true parts: large
/// parts that cancel only between lanes would leave their rounding errors in the float sums.
template <int kOffset>
inline __m512i offset_lanes(__m512i negative_sums) {
    constexpr unsigned kShift = static_cast<unsigned>(__builtin_ctz(kOffset));
    static_assert(kOffset == 1 << kShift);
    return _mm512_slli_epi32(negative_sums, kShift);
}

inline __m512i lane_sums(const PackedGroup& x, int half) {
    return _mm512_load_si512(x.negative_lane_sum[half]);
}

/// w · q of one half, the high plane.
inline __m512i add_high(__m512i dot, const Unpacked& w, const PackedGroup& x, int half) {
    return _mm512_dpbusd_epi32(dot, w.half[half], _mm512_load_si512(x.q[0][half]));
}
inline __m512i add_low(__m512i dot, const Unpacked& w, const PackedGroup& x, int half) {
    return _mm512_dpbusd_epi32(dot, w.half[half], _mm512_load_si512(x.q[1][half]));
}

/// w · q of both halves, both planes; `start` joins unshifted.
inline __m512i dot_halves(__m512i start, const Unpacked& w, const PackedGroup& x) {
    const __m512i high = add_high(add_high(_mm512_setzero_si512(), w, x, 0), w, x, 1);
    const __m512i low = add_low(add_low(start, w, x, 0), w, x, 1);
    return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
}

inline __m512i dot_half(__m512i start, const Unpacked& w, const PackedGroup& x, int half) {
    const __m512i high = add_high(_mm512_setzero_si512(), w, x, half);
    return _mm512_add_epi32(_mm512_slli_epi32(high, 8), add_low(start, w, x, half));
}

template <class Format>
inline void accumulate(Accumulator& sum, const Unpacked& w, const PackedGroup& x) {
    const __m512i lanes = lane_index();
    if constexpr (Format::kKind == Kind::kMinimum) {
        // scale and scaled_sum stand side by side, as scales and minima do.
        const __m256 product = _mm256_mul_ps(w.scales, _mm256_load_ps(x.scale));
        const __m512i dot = dot_halves(_mm512_setzero_si512(), w, x);
        sum.min = _mm256_add_ps(sum.min, product);
        sum.dot = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), spread(product, lanes), sum.dot);
    } else if constexpr (Format::kKind == Kind::kOffset) {
        const __m128 product = _mm_mul_ps(_mm256_castps256_ps128(w.scales), _mm_load_ps(x.scale));
        const __m512i sums = _mm512_add_epi32(lane_sums(x, 0), lane_sums(x, 1));
        const __m512i dot = dot_halves(offset_lanes<Format::kOffset>(sums), w, x);
        sum.dot = _mm512_fmadd_ps(
            _mm512_cvtepi32_ps(dot), spread(_mm256_castps128_ps256(product), lanes), sum.dot);
    } else {
        const __m256 product =
            _mm256_mul_ps(w.scales, _mm256_broadcast_ps(reinterpret_cast<const __m128*>(x.scale)));
        const __m512i upper = _mm512_add_epi32(lanes, _mm512_set1_epi32(4));
        const __m512i dot0 = dot_half(offset_lanes<Format::kOffset>(lane_sums(x, 0)), w, x, 0);
        const __m512i dot1 = dot_half(offset_lanes<Format::kOffset>(lane_sums(x, 1)), w, x, 1);
        sum.dot = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot0), spread(product, lanes), sum.dot);
        sum.dot = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot1), spread(product, upper), sum.dot);
    }
}

inline float total(const Accumulator& sum) {
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(sum.dot), _mm512_extractf32x8_ps(sum.dot, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm256_extractf128_ps(sum.min, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

template <class Format, int kColumns>
inline void row_times_columns(const std::uint8_t* row,
                              std::size_t k,
                              const PackedGroup* const* columns,
                              float* out,
                              std::size_t out_stride) {
    Accumulator sums[kColumns];
    const std::size_t n_steps = k / (kGroupElements * Format::kStepGroups);
    for (std::size_t step = 0; step < n_steps; ++step) {
        const std::uint8_t* p = row + step * Format::kStepBytes;
        if constexpr (Format::kPrefetch) {
            for (int line = 0; line < Format::kStepBytes; line += 64) {
                _mm_prefetch(reinterpret_cast<const char*>(p + kPrefetchBytes + line), _MM_HINT_T0);
            }
        }
        Unpacked w[Format::kStepGroups];
        Format::template unpack<false>(p, kGroupBlocks, w);
        for (int part = 0; part < Format::kStepGroups; ++part) {
            for (int c = 0; c < kColumns; ++c) {
                accumulate<Format>(
                    sums[c],
                    w[part],
                    columns[c][step * Format::kStepGroups + static_cast<std::size_t>(part)]);
            }
        }
    }
    const int tail = static_cast<int>(k % kGroupElements) / kBlockElements;
    if (tail != 0) {  // only formats of 32 have one
        Unpacked w[Format::kStepGroups];
        Format::template unpack<true>(row + n_steps * Format::kStepBytes, tail, w);
        for (int c = 0; c < kColumns; ++c) {
            accumulate<Format>(sums[c], w[0], columns[c][n_steps]);
        }
    }
    for (int c = 0; c < kColumns; ++c) {
        out[static_cast<std::size_t>(c) * out_stride] = total(sums[c]);
    }
}

template <class Format, int kColumns>
void rows_times_columns(const LinearArgs& args) {
    const PackedGroup* columns[kColumns];
    for (int c = 0; c < kColumns; ++c) {
        columns[c] = reinterpret_cast<const PackedGroup*>(
            args.activations + static_cast<std::size_t>(c) * args.activation_bytes);
    }
    const auto* row = reinterpret_cast<const std::uint8_t*>(args.weights);
    for (std::size_t r = 0; r < args.n_rows; ++r, row += args.row_bytes) {
        row_times_columns<Format, kColumns>(row, args.k, columns, args.out + r, args.out_stride);
    }
}

template <class Format>
void matvec_of(const LinearArgs& args) {
    using Kernel = void (*)(const LinearArgs&);
    static constexpr Kernel kByColumns[kMatvecColumnsMax] = {rows_times_columns<Format, 1>,
                                                             rows_times_columns<Format, 2>,
                                                             rows_times_columns<Format, 3>,
                                                             rows_times_columns<Format, 4>,
                                                             rows_times_columns<Format, 5>,
                                                             rows_times_columns<Format, 6>,
                                                             rows_times_columns<Format, 7>,
                                                             rows_times_columns<Format, 8>};
    if (args.n_columns != 0) {
        kByColumns[args.n_columns - 1](args);
    }
}

}  // namespace

LinearKernel matvec(quant::QuantType type) {
    using quant::QuantType;
    switch (type) {
        case QuantType::kQ4_0:
            return matvec_of<FormatQ4_0>;
        case QuantType::kQ4_1:
            return matvec_of<FormatQ4_1>;
        case QuantType::kQ5_0:
            return matvec_of<FormatQ5_0>;
        case QuantType::kQ5_1:
            return matvec_of<FormatQ5_1>;
        case QuantType::kQ8_0:
            return matvec_of<FormatQ8_0>;
        case QuantType::kQ4_K:
            return matvec_of<FormatQ4_K>;
        case QuantType::kQ5_K:
            return matvec_of<FormatQ5_K>;
        case QuantType::kQ6_K:
            return matvec_of<FormatQ6_K>;
        default:
            return nullptr;
    }
}

}  // namespace ballast::kernels::avx512
