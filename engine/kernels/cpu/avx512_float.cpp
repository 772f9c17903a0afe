// SPDX-License-Identifier: MIT
// Products of float weights (F32, F16, BF16) with float activations, in float32 fused
// multiply-adds. Decode takes one row at a time; prefill unpacks panels of 32 rows × 128 of k.
#include <immintrin.h>

#include "engine/kernels/cpu/avx512.h"
#include "engine/kernels/cpu/avx512_simd.h"
#include "engine/kernels/cpu/avx512_transpose.h"

namespace ballast::kernels::avx512 {
namespace {

struct F32 {
    static constexpr std::size_t kBytes = 4;
    static __m512 load(const std::byte* p, __mmask16 mask) {
        return _mm512_maskz_loadu_ps(mask, p);
    }
};

struct F16 {
    static constexpr std::size_t kBytes = 2;
    static __m512 load(const std::byte* p, __mmask16 mask) {
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p));
    }
};

struct Bf16 {
    static constexpr std::size_t kBytes = 2;
    static __m512 load(const std::byte* p, __mmask16 mask) {
        const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p));
        return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
    }
};

const float* float_column(const LinearArgs& args, std::size_t c) {
    return reinterpret_cast<const float*>(args.activations + c * args.activation_bytes);
}

/// One row against kColumns columns; two sums a column hide the latency of the additions.
template <class Weight, int kColumns>
void rows_times_columns(const LinearArgs& args) {
    const float* columns[kColumns];
    for (int c = 0; c < kColumns; ++c) {
        columns[c] = float_column(args, static_cast<std::size_t>(c));
    }
    for (std::size_t r = 0; r < args.n_rows; ++r) {
        const std::byte* row = args.weights + r * args.row_bytes;
        __m512 sums[kColumns][2] = {};
        for (std::size_t i = 0; i < args.k; i += 32) {
            const auto left = static_cast<std::ptrdiff_t>(args.k - i);
            const __mmask16 m0 = first_lanes(left);
            const __mmask16 m1 = first_lanes(left - 16);
            const __m512 w0 = Weight::load(row + i * Weight::kBytes, m0);
            const __m512 w1 = Weight::load(row + (i + 16) * Weight::kBytes, m1);
#pragma GCC unroll 8
            for (int c = 0; c < kColumns; ++c) {
                const float* x = columns[c] + i;
                sums[c][0] = _mm512_fmadd_ps(w0, _mm512_maskz_loadu_ps(m0, x), sums[c][0]);
                sums[c][1] = _mm512_fmadd_ps(w1, _mm512_maskz_loadu_ps(m1, x + 16), sums[c][1]);
            }
        }
        for (int c = 0; c < kColumns; ++c) {
            args.out[static_cast<std::size_t>(c) * args.out_stride + r] =
                _mm512_reduce_add_ps(_mm512_add_ps(sums[c][0], sums[c][1]));
        }
    }
}

template <class Weight>
void matvec_of(const LinearArgs& args) {
    static constexpr LinearKernel kByColumns[kMatvecColumnsMax] = {rows_times_columns<Weight, 1>,
                                                                   rows_times_columns<Weight, 2>,
                                                                   rows_times_columns<Weight, 3>,
                                                                   rows_times_columns<Weight, 4>,
                                                                   rows_times_columns<Weight, 5>,
                                                                   rows_times_columns<Weight, 6>,
                                                                   rows_times_columns<Weight, 7>,
                                                                   rows_times_columns<Weight, 8>};
    if (args.n_columns != 0) {
        kByColumns[args.n_columns - 1](args);
    }
}

constexpr int kPanelRows = 32;
constexpr std::size_t kChunk = 128;
constexpr int kTileColumns = 6;

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
    __mmask16 rows[2];
    bool first;
};

template <int kColumns>
void multiply_tile(const Tile& tile) {
    __m512 sums[kColumns][2];
#pragma GCC unroll 6
    for (int c = 0; c < kColumns; ++c) {
        const float* out = tile.out + static_cast<std::size_t>(c) * tile.out_stride;
        sums[c][0] = _mm512_setzero_ps();
        sums[c][1] = _mm512_setzero_ps();
        if (!tile.first) {
            sums[c][0] = _mm512_maskz_loadu_ps(tile.rows[0], out);
            sums[c][1] = _mm512_maskz_loadu_ps(tile.rows[1], out + 16);
        }
    }
    for (std::size_t i = 0; i < tile.length; ++i) {
        const __m512 w0 = _mm512_load_ps(tile.panel->weights[i]);
        const __m512 w1 = _mm512_load_ps(tile.panel->weights[i] + 16);
#pragma GCC unroll 6
        for (int c = 0; c < kColumns; ++c) {
            const __m512 x = _mm512_set1_ps(tile.columns[c][i]);
            sums[c][0] = _mm512_fmadd_ps(w0, x, sums[c][0]);
            sums[c][1] = _mm512_fmadd_ps(w1, x, sums[c][1]);
        }
    }
#pragma GCC unroll 6
    for (int c = 0; c < kColumns; ++c) {
        float* out = tile.out + static_cast<std::size_t>(c) * tile.out_stride;
        _mm512_mask_storeu_ps(out, tile.rows[0], sums[c][0]);
        _mm512_mask_storeu_ps(out + 16, tile.rows[1], sums[c][1]);
    }
}

template <class Weight>
void unpack_panel(
    const LinearArgs& args, std::size_t row, std::size_t begin, std::size_t length, Panel& panel) {
    for (std::size_t block = 0; block < kPanelRows; block += 16) {
        for (std::size_t i = 0; i < length; i += 16) {
            const __mmask16 mask = first_lanes(static_cast<std::ptrdiff_t>(length - i));
            __m512i square[16];
            for (std::size_t r = 0; r < 16; ++r) {
                const std::size_t index = row + block + r;
                square[r] = _mm512_setzero_si512();
                if (index < args.n_rows) {
                    square[r] = _mm512_castps_si512(Weight::load(
                        args.weights + index * args.row_bytes + (begin + i) * Weight::kBytes,
                        mask));
                }
            }
            transpose_16x16(square);
            for (std::size_t d = 0; d < 16; ++d) {
                _mm512_store_si512(&panel.weights[i + d][block], square[d]);
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
        const auto n_rows = static_cast<std::ptrdiff_t>(args.n_rows - row);
        for (std::size_t begin = 0; begin < args.k; begin += kChunk) {
            Tile tile{};
            tile.panel = &panel;
            tile.length = args.k - begin < kChunk ? args.k - begin : kChunk;
            tile.out_stride = args.out_stride;
            tile.rows[0] = first_lanes(n_rows);
            tile.rows[1] = first_lanes(n_rows - 16);
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

}  // namespace ballast::kernels::avx512
