// SPDX-License-Identifier: MIT
// Prefill: panels of 32 weight rows × 512 of k are unpacked once to bytes that stay in the first
// cache, and every tile of columns passes over them.
//
// Panel: [group][half][16 dwords][32 rows] of four bytes, so that one dword of a column, broadcast,
// meets two registers of 16 rows. A tile of 6 columns has 12 integer and 12 float accumulators,
// which with two weights, a column and scales fills the 32 registers. Sizes: codes 16 KB, scales
// 4 KB, six columns 8 KB: under 32 KB.
//
// Bits: a cell is one lane's sum over the blocks of k in order, with partial sums passed from
// chunk to chunk in float32 through the output; no other cell takes part in it.
#include <immintrin.h>

#include "engine/kernels/cpu/avx512.h"
#include "engine/kernels/cpu/avx512_formats.h"
#include "engine/kernels/cpu/avx512_formats_k.h"
#include "engine/kernels/cpu/avx512_simd.h"
#include "engine/kernels/cpu/avx512_transpose.h"

namespace ballast::kernels::avx512 {
namespace {

constexpr int kPanelRows = 32;
constexpr int kChunkGroups = 4;
constexpr int kTileColumns = 6;

struct alignas(64) Panel {
    std::uint32_t codes[kChunkGroups][2][16][kPanelRows];
    // Per block: scales, then minima or the scales of second halves.
    float scales[kChunkGroups][kGroupBlocks][2][kPanelRows];
};
static_assert(sizeof(Panel) <= kPanelBytes);

/// What a call of the micro-kernel works on.
struct Tile {
    const Panel* panel;
    int n_blocks;  // blocks of 32 in this chunk
    const PackedGroup* columns[kTileColumns];
    float* out;  // row 0 of the panel, column 0 of the tile
    std::size_t out_stride;
    __mmask16 rows[2];
    bool first;  // the chunk begins the sum
};

inline __m512i broadcast_dword(const std::int8_t* p) {
    std::int32_t value = 0;
    __builtin_memcpy(&value, p, sizeof value);
    return _mm512_set1_epi32(value);
}

constexpr unsigned log2_of(int power) {
    unsigned n = 0;
    while ((1 << n) < power) {
        ++n;
    }
    return n;
}

/// Adds four dwords of one half of block b, times one plane of the activations, to the sums.
template <int kPlane, int kColumns>
inline void add_half(
    __m512i (&dots)[kColumns][2], const Panel& panel, const Tile& tile, int g, int b, int half) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
        const std::uint32_t* codes = panel.codes[g][half][b * 4 + j];
        const __m512i w0 = _mm512_load_si512(codes);
        const __m512i w1 = _mm512_load_si512(codes + 16);
#pragma GCC unroll 6
        for (int c = 0; c < kColumns; ++c) {
            const __m512i q = broadcast_dword(tile.columns[c][g].q[kPlane][half][b] + 4 * j);
            dots[c][0] = _mm512_dpbusd_epi32(dots[c][0], w0, q);
            dots[c][1] = _mm512_dpbusd_epi32(dots[c][1], w1, q);
        }
    }
}

template <int kColumns>
inline void add_scaled(__m512 (&sums)[kColumns][2],
                       const __m512i (&dots)[kColumns][2],
                       const float* scales,
                       const Tile& tile,
                       int g,
                       int b) {
    const __m512 s0 = _mm512_load_ps(scales);
    const __m512 s1 = _mm512_load_ps(scales + 16);
#pragma GCC unroll 6
    for (int c = 0; c < kColumns; ++c) {
        const __m512 x = _mm512_set1_ps(tile.columns[c][g].scale[b]);
        sums[c][0] =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[c][0]), _mm512_mul_ps(s0, x), sums[c][0]);
        sums[c][1] =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[c][1]), _mm512_mul_ps(s1, x), sums[c][1]);
    }
}

template <int kColumns>
inline void clear(__m512i (&dots)[kColumns][2]) {
#pragma GCC unroll 6
    for (int c = 0; c < kColumns; ++c) {
        dots[c][0] = _mm512_setzero_si512();
        dots[c][1] = _mm512_setzero_si512();
    }
}

/// Between the planes: the sums of the high one count 256 times; the offset's correction joins.
template <int kOffset, int kColumns>
inline void shift_plane(__m512i (&dots)[kColumns][2], const Tile& tile, int g, int b, int half) {
#pragma GCC unroll 6
    for (int c = 0; c < kColumns; ++c) {
        const PackedGroup& x = tile.columns[c][g];
        dots[c][0] = _mm512_slli_epi32(dots[c][0], 8);
        dots[c][1] = _mm512_slli_epi32(dots[c][1], 8);
        if constexpr (kOffset != 0) {
            const int sum = half < 0 ? x.negative_sum[b] : x.negative_half_sum[half][b];
            const __m512i start = _mm512_slli_epi32(_mm512_set1_epi32(sum), log2_of(kOffset));
            dots[c][0] = _mm512_add_epi32(dots[c][0], start);
            dots[c][1] = _mm512_add_epi32(dots[c][1], start);
        }
    }
}

template <Kind kKind, int kOffset, int kColumns>
inline void add_block(
    __m512 (&sums)[kColumns][2], const Panel& panel, const Tile& tile, int g, int b) {
    __m512i dots[kColumns][2];
    if constexpr (kKind == Kind::kHalfScales) {
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
            clear(dots);
            add_half<0>(dots, panel, tile, g, b, half);
            shift_plane<kOffset>(dots, tile, g, b, half);
            add_half<1>(dots, panel, tile, g, b, half);
            add_scaled(sums, dots, panel.scales[g][b][half], tile, g, b);
        }
        return;
    }
    clear(dots);
    add_half<0>(dots, panel, tile, g, b, 0);
    add_half<0>(dots, panel, tile, g, b, 1);
    shift_plane<kOffset>(dots, tile, g, b, -1);
    add_half<1>(dots, panel, tile, g, b, 0);
    add_half<1>(dots, panel, tile, g, b, 1);
    add_scaled(sums, dots, panel.scales[g][b][0], tile, g, b);
    if constexpr (kKind == Kind::kMinimum) {
        const __m512 m0 = _mm512_load_ps(panel.scales[g][b][1]);
        const __m512 m1 = _mm512_load_ps(panel.scales[g][b][1] + 16);
#pragma GCC unroll 6
        for (int c = 0; c < kColumns; ++c) {
            const __m512 x = _mm512_set1_ps(tile.columns[c][g].scaled_sum[b]);
            sums[c][0] = _mm512_fmadd_ps(m0, x, sums[c][0]);
            sums[c][1] = _mm512_fmadd_ps(m1, x, sums[c][1]);
        }
    }
}

template <Kind kKind, int kOffset, int kColumns>
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
    for (int block = 0; block < tile.n_blocks; ++block) {
        add_block<kKind, kOffset, kColumns>(
            sums, *tile.panel, tile, block / kGroupBlocks, block % kGroupBlocks);
    }
#pragma GCC unroll 6
    for (int c = 0; c < kColumns; ++c) {
        float* out = tile.out + static_cast<std::size_t>(c) * tile.out_stride;
        _mm512_mask_storeu_ps(out, tile.rows[0], sums[c][0]);
        _mm512_mask_storeu_ps(out + 16, tile.rows[1], sums[c][1]);
    }
}

template <Kind kKind, int kOffset>
void multiply_columns(Tile tile, int n_columns) {
    switch (n_columns) {
        case 1:
            return multiply_tile<kKind, kOffset, 1>(tile);
        case 2:
            return multiply_tile<kKind, kOffset, 2>(tile);
        case 3:
            return multiply_tile<kKind, kOffset, 3>(tile);
        case 4:
            return multiply_tile<kKind, kOffset, 4>(tile);
        case 5:
            return multiply_tile<kKind, kOffset, 5>(tile);
        default:
            return multiply_tile<kKind, kOffset, 6>(tile);
    }
}

/// Unpacks one step (Format::kStepGroups groups) of 16 rows into the panel.
template <class Format>
void unpack_rows(const std::uint8_t* weights,
                 std::size_t row_bytes,
                 int n_rows,
                 int n_blocks,
                 Panel& panel,
                 int group,
                 int first_row) {
    __m512i codes[Format::kStepGroups][2][16];
    for (int r = 0; r < 16; ++r) {
        Unpacked w[Format::kStepGroups];
        if (r >= n_rows) {
            for (auto& part : w) {
                part = {{_mm512_setzero_si512(), _mm512_setzero_si512()}, _mm256_setzero_ps()};
            }
        } else if (n_blocks < kGroupBlocks) {
            Format::template unpack<true>(
                weights + static_cast<std::size_t>(r) * row_bytes, n_blocks, w);
        } else {
            Format::template unpack<false>(
                weights + static_cast<std::size_t>(r) * row_bytes, kGroupBlocks, w);
        }
        for (int part = 0; part < Format::kStepGroups; ++part) {
            codes[part][0][r] = w[part].half[0];
            codes[part][1][r] = w[part].half[1];
            alignas(32) float scales[8];
            _mm256_store_ps(scales, w[part].scales);
            for (int b = 0; b < kGroupBlocks; ++b) {
                panel.scales[group + part][b][0][first_row + r] = scales[b];
                panel.scales[group + part][b][1][first_row + r] = scales[4 + b];
            }
        }
    }
    for (int part = 0; part < Format::kStepGroups; ++part) {
        for (int half = 0; half < 2; ++half) {
            transpose_16x16(codes[part][half]);
            for (int d = 0; d < 16; ++d) {
                _mm512_store_si512(&panel.codes[group + part][half][d][first_row],
                                   codes[part][half][d]);
            }
        }
    }
}

template <class Format>
void unpack_panel(
    const std::uint8_t* weights, std::size_t row_bytes, int n_rows, int n_blocks, Panel& panel) {
    for (int first_row = 0; first_row < kPanelRows; first_row += 16) {
        const std::uint8_t* rows = weights + static_cast<std::size_t>(first_row) * row_bytes;
        for (int block = 0; block < n_blocks; block += Format::kStepGroups * kGroupBlocks) {
            const int group = block / kGroupBlocks;
            unpack_rows<Format>(rows + group / Format::kStepGroups * Format::kStepBytes,
                                row_bytes,
                                n_rows - first_row,
                                n_blocks - block,
                                panel,
                                group,
                                first_row);
        }
    }
}

template <class Format>
void matmul_of(const LinearArgs& args) {
    auto& panel = *reinterpret_cast<Panel*>(args.scratch);
    const auto* weights = reinterpret_cast<const std::uint8_t*>(args.weights);
    const std::size_t n_blocks = args.k / kBlockElements;
    constexpr std::size_t kChunkBlocks = static_cast<std::size_t>(kChunkGroups) * kGroupBlocks;
    constexpr std::size_t kChunkBytes = kChunkGroups / Format::kStepGroups * Format::kStepBytes;
    for (std::size_t row = 0; row < args.n_rows; row += kPanelRows) {
        const std::size_t rows_left = args.n_rows - row;
        const int n_rows = rows_left < kPanelRows ? static_cast<int>(rows_left) : kPanelRows;
        for (std::size_t block = 0; block < n_blocks; block += kChunkBlocks) {
            const std::size_t chunk = block / kChunkBlocks;
            const std::size_t blocks_left = n_blocks - block;
            Tile tile{};
            tile.panel = &panel;
            tile.n_blocks =
                static_cast<int>(blocks_left < kChunkBlocks ? blocks_left : kChunkBlocks);
            tile.out_stride = args.out_stride;
            tile.rows[0] = first_lanes(n_rows);
            tile.rows[1] = first_lanes(n_rows - 16);
            tile.first = block == 0;
            unpack_panel<Format>(weights + row * args.row_bytes + chunk * kChunkBytes,
                                 args.row_bytes,
                                 n_rows,
                                 tile.n_blocks,
                                 panel);
            for (std::size_t c = 0; c < args.n_columns; c += kTileColumns) {
                const std::size_t left = args.n_columns - c;
                const int n_columns = left < kTileColumns ? static_cast<int>(left) : kTileColumns;
                for (int i = 0; i < n_columns; ++i) {
                    const std::byte* column = args.activations + (c + static_cast<std::size_t>(i)) *
                                                                     args.activation_bytes;
                    tile.columns[i] =
                        reinterpret_cast<const PackedGroup*>(column) + chunk * kChunkGroups;
                }
                tile.out = args.out + c * args.out_stride + row;
                multiply_columns<Format::kKind, Format::kOffset>(tile, n_columns);
            }
        }
    }
}

}  // namespace

LinearKernel matmul(quant::QuantType type) {
    using quant::QuantType;
    switch (type) {
        case QuantType::kQ4_0:
            return matmul_of<FormatQ4_0>;
        case QuantType::kQ4_1:
            return matmul_of<FormatQ4_1>;
        case QuantType::kQ5_0:
            return matmul_of<FormatQ5_0>;
        case QuantType::kQ5_1:
            return matmul_of<FormatQ5_1>;
        case QuantType::kQ8_0:
            return matmul_of<FormatQ8_0>;
        case QuantType::kQ4_K:
            return matmul_of<FormatQ4_K>;
        case QuantType::kQ5_K:
            return matmul_of<FormatQ5_K>;
        case QuantType::kQ6_K:
            return matmul_of<FormatQ6_K>;
        default:
            return nullptr;
    }
}

std::size_t matmul_scratch_bytes(std::size_t /*k*/) {
    return kPanelBytes;
}

}  // namespace ballast::kernels::avx512
