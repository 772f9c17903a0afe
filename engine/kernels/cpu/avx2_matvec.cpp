// SPDX-License-Identifier: MIT
// Decode: one weight row at a time, four columns at most in one pass over it (the row stays in the
// first cache for a second pass). Why one row, and why the prefetch: see avx512_matvec.cpp.
//
// Bits: each column has its own accumulators and meets the same operations in the same order
// whatever the number of columns.
#include <immintrin.h>

#include "engine/kernels/cpu/avx2.h"
#include "engine/kernels/cpu/avx2_formats.h"
#include "engine/kernels/cpu/avx2_formats_k.h"
#include "engine/kernels/cpu/avx2_simd.h"

namespace ballast::kernels::avx2 {
namespace {

constexpr int kPrefetchBytes = 3072;
constexpr int kPassColumns = 4;

struct Accumulator {
    __m256 dot = _mm256_setzero_ps();
    __m256 min = _mm256_setzero_ps();  // upper half: scaled_sum · minimum
};

/// Eight lanes of four products each, exact; 16-bit sums as avx2_formats.h allows.
template <class Format>
inline __m256i dot_halves(__m256i w0, __m256i q0, __m256i w1, __m256i q1) {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (Format::kKind == Kind::kSigned) {
        const __m256i pairs0 = _mm256_maddubs_epi16(_mm256_abs_epi8(w0), _mm256_sign_epi8(q0, w0));
        const __m256i pairs1 = _mm256_maddubs_epi16(_mm256_abs_epi8(w1), _mm256_sign_epi8(q1, w1));
        return _mm256_add_epi32(_mm256_madd_epi16(pairs0, ones), _mm256_madd_epi16(pairs1, ones));
    } else {
        return _mm256_madd_epi16(
            _mm256_add_epi16(_mm256_maddubs_epi16(w0, q0), _mm256_maddubs_epi16(w1, q1)), ones);
    }
}

inline __m256i load_q(const PackedGroup& x, int plane, int half, int pair) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(x.q[plane][half][2 * pair]));
}

/// The high plane counts 256 times.
inline __m256i join_planes(__m256i high, __m256i low) {
    return _mm256_add_epi32(_mm256_slli_epi32(high, 8), low);
}

/// Minus offset · Σq of each of a pair's eight lanes.
template <int kOffset>
inline __m256i offset_lanes(__m256i negative_sums) {
    constexpr int kShift = __builtin_ctz(kOffset);
    return _mm256_slli_epi32(negative_sums, kShift);
}

inline __m256i lane_sums(const PackedGroup& x, int half, int pair) {
    return _mm256_load_si256(
        reinterpret_cast<const __m256i*>(&x.negative_lane_sum[half][8 * pair]));
}

template <class Format>
inline void accumulate(Accumulator& sum, const Unpacked& w, const PackedGroup& x) {
    const __m256i spread[2] = {_mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1),
                               _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3)};
    if constexpr (Format::kKind == Kind::kHalfScales) {
        const __m256 product =
            _mm256_mul_ps(w.scales, _mm256_broadcast_ps(reinterpret_cast<const __m128*>(x.scale)));
        const __m256i ones = _mm256_set1_epi16(1);
        for (int pair = 0; pair < 2; ++pair) {
            for (int half = 0; half < 2; ++half) {
                __m256i planes[2];
                for (int plane = 0; plane < 2; ++plane) {
                    planes[plane] = _mm256_madd_epi16(
                        _mm256_maddubs_epi16(w.half[half][pair], load_q(x, plane, half, pair)),
                        ones);
                }
                const __m256i dot =
                    _mm256_add_epi32(join_planes(planes[0], planes[1]),
                                     offset_lanes<Format::kOffset>(lane_sums(x, half, pair)));
                const __m256i index = _mm256_add_epi32(spread[pair], _mm256_set1_epi32(4 * half));
                sum.dot = _mm256_fmadd_ps(
                    _mm256_cvtepi32_ps(dot), _mm256_permutevar8x32_ps(product, index), sum.dot);
            }
        }
        return;
    }
    // scale and scaled_sum stand side by side, as scales and minima do.
    const __m256 product = _mm256_mul_ps(w.scales, _mm256_load_ps(x.scale));
    if constexpr (Format::kKind == Kind::kMinimum) {
        sum.min = _mm256_add_ps(sum.min, product);
    }
    for (int pair = 0; pair < 2; ++pair) {
        __m256i planes[2];
        for (int plane = 0; plane < 2; ++plane) {
            planes[plane] = dot_halves<Format>(w.half[0][pair],
                                               load_q(x, plane, 0, pair),
                                               w.half[1][pair],
                                               load_q(x, plane, 1, pair));
        }
        __m256i dot = join_planes(planes[0], planes[1]);
        if constexpr (Format::kKind == Kind::kOffset) {
            dot = _mm256_add_epi32(dot,
                                   offset_lanes<Format::kOffset>(_mm256_add_epi32(
                                       lane_sums(x, 0, pair), lane_sums(x, 1, pair))));
        }
        sum.dot = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(dot), _mm256_permutevar8x32_ps(product, spread[pair]), sum.dot);
    }
}

inline float total(const Accumulator& sum) {
    const __m128 zero = _mm_setzero_ps();
    return Simd::sum(sum.dot) + Simd::sum(_mm256_set_m128(zero, _mm256_extractf128_ps(sum.min, 1)));
}

template <class Format, int kColumns>
void row_times_columns(const LinearArgs& args, std::size_t row, std::size_t first_column) {
    const PackedGroup* columns[kColumns];
    for (int c = 0; c < kColumns; ++c) {
        columns[c] = reinterpret_cast<const PackedGroup*>(
            args.activations +
            (first_column + static_cast<std::size_t>(c)) * args.activation_bytes);
    }
    const auto* p = reinterpret_cast<const std::uint8_t*>(args.weights + row * args.row_bytes);
    Accumulator sums[kColumns];
    const int n_blocks = static_cast<int>(args.k / kBlockElements);
    for (int block = 0; block < n_blocks; block += kGroupBlocks * Format::kStepGroups) {
        for (int line = 0; line < Format::kStepBytes; line += 64) {
            _mm_prefetch(reinterpret_cast<const char*>(p + kPrefetchBytes + line), _MM_HINT_T0);
        }
        Unpacked w[Format::kStepGroups];
        Format::unpack(p, n_blocks - block, w);
        p += Format::kStepBytes;
        for (int part = 0; part < Format::kStepGroups; ++part) {
            for (int c = 0; c < kColumns; ++c) {
                accumulate<Format>(sums[c], w[part], columns[c][block / kGroupBlocks + part]);
            }
        }
    }
    for (int c = 0; c < kColumns; ++c) {
        args.out[(first_column + static_cast<std::size_t>(c)) * args.out_stride + row] =
            total(sums[c]);
    }
}

template <class Format>
void matvec_of(const LinearArgs& args) {
    using Pass = void (*)(const LinearArgs&, std::size_t, std::size_t);
    static constexpr Pass kByColumns[kPassColumns] = {row_times_columns<Format, 1>,
                                                      row_times_columns<Format, 2>,
                                                      row_times_columns<Format, 3>,
                                                      row_times_columns<Format, 4>};
    for (std::size_t row = 0; row < args.n_rows; ++row) {
        for (std::size_t c = 0; c < args.n_columns; c += kPassColumns) {
            const std::size_t left = args.n_columns - c;
            kByColumns[(left < kPassColumns ? left : kPassColumns) - 1](args, row, c);
        }
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

}  // namespace ballast::kernels::avx2
