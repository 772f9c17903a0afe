// SPDX-License-Identifier: MIT
// Products of float weights (F32, F16, BF16) with float activations, in float32 fused
// multiply-adds. Decode takes one row at a time; prefill unpacks panels of 16 rows × 128 of k.
#include <immintrin.h>

#include "engine/kernels/cpu/avx2.h"
#include "engine/kernels/cpu/avx2_simd.h"

namespace ballast::kernels::avx2 {
namespace {

constexpr std::size_t kLanes = Simd::kLanes;

struct F32 {
    static constexpr std::size_t kBytes = 4;
    static __m256 load(const std::byte* p) {
        return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
    }
};

struct F16 {
    static constexpr std::size_t kBytes = 2;
    static __m256 load(const std::byte* p) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
};

struct Bf16 {
    static constexpr std::size_t kBytes = 2;
    static __m256 load(const std::byte* p) {
        const __m256i wide =
            _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
        return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
    }
};

/// Weights [begin, begin + 8) of a row of k; zero past its end, which is not read.
template <class Weight>
inline __m256 load_weights(const std::byte* row, std::size_t begin, std::size_t k) {
    if (begin + kLanes <= k) {
        return Weight::load(row + begin * Weight::kBytes);
    }
    std::byte padded[kLanes * Weight::kBytes] = {};
    if (begin < k) {
        __builtin_memcpy(padded, row + begin * Weight::kBytes, (k - begin) * Weight::kBytes);
    }
    return Weight::load(padded);
}

const float* float_column(const LinearArgs& args, std::size_t c) {
    return reinterpret_cast<const float*>(args.activations + c * args.activation_bytes);
}

constexpr std::size_t kPassColumns = 4;

/// One row against kColumns columns; two sums a column hide the latency of the additions.
template <class Weight, int kColumns>
void row_times_columns(const LinearArgs& args, std::size_t row, std::size_t first_column) {
    const float* columns[kColumns];
    __m256 sums[kColumns][2];
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
        columns[c] = float_column(args, first_column + static_cast<std::size_t>(c));
        sums[c][0] = _mm256_setzero_ps();
        sums[c][1] = _mm256_setzero_ps();
    }
    const std::byte* weights = args.weights + row * args.row_bytes;
    for (std::size_t i = 0; i < args.k; i += 2 * kLanes) {
        const auto left = static_cast<std::ptrdiff_t>(args.k - i);
        const __m256 w0 = load_weights<Weight>(weights, i, args.k);
        const __m256 w1 = load_weights<Weight>(weights, i + kLanes, args.k);
        const __m256 m0 = Simd::first(left);
        const __m256 m1 = Simd::first(left - Simd::kLanes);
#pragma GCC unroll 4
        for (int c = 0; c < kColumns; ++c) {
            const float* x = columns[c] + i;
            sums[c][0] = _mm256_fmadd_ps(w0, Simd::load(m0, x), sums[c][0]);
            sums[c][1] = _mm256_fmadd_ps(w1, Simd::load(m1, x + kLanes), sums[c][1]);
        }
    }
    for (int c = 0; c < kColumns; ++c) {
        args.out[(first_column + static_cast<std::size_t>(c)) * args.out_stride + row] =
            Simd::sum(_mm256_add_ps(sums[c][0], sums[c][1]));
    }
}

template <class Weight>
void matvec_of(const LinearArgs& args) {
    using Pass = void (*)(const LinearArgs&, std::size_t, std::size_t);
    static constexpr Pass kByColumns[kPassColumns] = {row_times_columns<Weight, 1>,
                                                      row_times_columns<Weight, 2>,
                                                      row_times_columns<Weight, 3>,
                                                      row_times_columns<Weight, 4>};
    for (std::size_t row = 0; row < args.n_rows; ++row) {
        for (std::size_t c = 0; c < args.n_columns; c += kPassColumns) {
            const std::size_t left = args.n_columns - c;
            kByColumns[(left < kPassColumns ? left : kPassColumns) - 1](args, row, c);
        }
    }
}

constexpr std::size_t kPanelRows = 16;
constexpr std::size_t kChunk = 128;
constexpr std::size_t kTileColumns = 6;

struct alignas(64) Panel {
    float weights[kChunk][kPanelRows];
};
static_assert(sizeof(Panel) <= kPanelBytes);

struct Tile {
    const Panel* panel;
    std::size_t length;  // of k in this chunk
    const float* columns[kTileColumns];
    float* out;
    std::size_t out_stride;
    std::ptrdiff_t n_rows;
    bool first;
};

template <int kColumns>
void multiply_tile(const Tile& tile) {
    const __m256 rows[2] = {Simd::first(tile.n_rows), Simd::first(tile.n_rows - Simd::kLanes)};
    __m256 sums[kColumns][2];
#pragma GCC unroll 6
    for (int c = 0; c < kColumns; ++c) {
        const float* out = tile.out + static_cast<std::size_t>(c) * tile.out_stride;
        sums[c][0] = tile.first ? _mm256_setzero_ps() : Simd::load(rows[0], out);
        sums[c][1] = tile.first ? _mm256_setzero_ps() : Simd::load(rows[1], out + kLanes);
    }
    for (std::size_t i = 0; i < tile.length; ++i) {
        const __m256 w0 = _mm256_load_ps(tile.panel->weights[i]);
        const __m256 w1 = _mm256_load_ps(tile.panel->weights[i] + kLanes);
#pragma GCC unroll 6
        for (int c = 0; c < kColumns; ++c) {
            const __m256 x = _mm256_set1_ps(tile.columns[c][i]);
            sums[c][0] = _mm256_fmadd_ps(w0, x, sums[c][0]);
            sums[c][1] = _mm256_fmadd_ps(w1, x, sums[c][1]);
        }
    }
#pragma GCC unroll 6
    for (int c = 0; c < kColumns; ++c) {
        float* out = tile.out + static_cast<std::size_t>(c) * tile.out_stride;
        Simd::store(rows[0], out, sums[c][0]);
        Simd::store(rows[1], out + kLanes, sums[c][1]);
    }
}

template <class Weight>
void unpack_panel(
    const LinearArgs& args, std::size_t row, std::size_t begin, std::size_t length, Panel& panel) {
    for (std::size_t block = 0; block < kPanelRows; block += kLanes) {
        for (std::size_t i = 0; i < length; i += kLanes) {
            __m256 square[kLanes];
            for (std::size_t r = 0; r < kLanes; ++r) {
                const std::size_t index = row + block + r;
                square[r] = index < args.n_rows
                                ? load_weights<Weight>(
                                      args.weights + index * args.row_bytes, begin + i, args.k)
                                : _mm256_setzero_ps();
            }
            Simd::transpose(square);
            for (std::size_t d = 0; d < kLanes; ++d) {
                _mm256_store_ps(&panel.weights[i + d][block], square[d]);
            }
        }
    }
}

template <class Weight>
void matmul_of(const LinearArgs& args) {
    static constexpr void (*kByColumns[kTileColumns])(const Tile&) = {multiply_tile<1>,
                                                                      multiply_tile<2>,
                                                                      multiply_tile<3>,
                                                                      multiply_tile<4>,
                                                                      multiply_tile<5>,
                                                                      multiply_tile<6>};
    auto& panel = *reinterpret_cast<Panel*>(args.scratch);
    for (std::size_t row = 0; row < args.n_rows; row += kPanelRows) {
        for (std::size_t begin = 0; begin < args.k; begin += kChunk) {
            Tile tile{};
            tile.panel = &panel;
            tile.length = args.k - begin < kChunk ? args.k - begin : kChunk;
            tile.out_stride = args.out_stride;
            tile.n_rows = static_cast<std::ptrdiff_t>(args.n_rows - row);
            tile.first = begin == 0;
            unpack_panel<Weight>(args, row, begin, tile.length, panel);
            for (std::size_t c = 0; c < args.n_columns; c += kTileColumns) {
                const std::size_t left = args.n_columns - c;
                const std::size_t n_columns = left < kTileColumns ? left : kTileColumns;
                for (std::size_t i = 0; i < n_columns; ++i) {
                    tile.columns[i] = float_column(args, c + i) + begin;
                }
                tile.out = args.out + c * args.out_stride + row;
                kByColumns[n_columns - 1](tile);
            }
        }
    }
}

template <class Weight>
constexpr LinearKernels kernels_of() {
    return {
        .form = ActivationForm::kFloat, .matvec = matvec_of<Weight>, .matmul = matmul_of<Weight>};
}

}  // namespace

LinearKernels float_linear(quant::QuantType type) {
    switch (type) {
        case quant::QuantType::kF32:
            return kernels_of<F32>();
        case quant::QuantType::kF16:
            return kernels_of<F16>();
        case quant::QuantType::kBF16:
            return kernels_of<Bf16>();
        default:
            return {};
    }
}

}  // namespace ballast::kernels::avx2
