// SPDX-License-Identifier: MIT
// Prefill: panels of 8 weight rows × 512 of k are unpacked once to bytes that stay in the first
// cache, and every tile of 4 columns passes over them.
//
// Panel: [group][half][16 dwords][8 rows] of four bytes, so that one dword of a column, broadcast,
// meets a register of 8 rows. A tile of 4 columns has 4 float, 4 integer and 4 16-bit accumulators,
// which with a weight, a column, ones and a scale fills the 16 registers.
//
// Bits: a cell is one lane's sum over the blocks of k in order, with partial sums passed from
// chunk to chunk in float32 through the output; no other cell takes part in it.
#include <immintrin.h>

#include "engine/kernels/cpu/avx2.h"
#include "engine/kernels/cpu/avx2_formats.h"
#include "engine/kernels/cpu/avx2_formats_k.h"
#include "engine/kernels/cpu/avx2_simd.h"

namespace ballast::kernels::avx2 {
namespace {

constexpr int kPanelRows = 8;
constexpr int kChunkGroups = 4;
constexpr int kTileColumns = 4;

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
    int n_rows;
    bool first;  // the chunk begins the sum
};

inline __m256i broadcast_dword(const std::int8_t* p) {
    std::int32_t value = 0;
    __builtin_memcpy(&value, p, sizeof value);
    return _mm256_set1_epi32(value);
}

/// Adds kSteps dwords from dword `step` of block b (0 … 3 first half, 4 … 7 second), times one
/// plane of the activations.
template <class Format, int kPlane, int kColumns>
inline void add_steps(__m256i (&dots)[kColumns], const Tile& tile, int g, int b, int step) {
    constexpr int kSteps = Format::kMaddSteps;
    __m256i pairs[kColumns];
#pragma GCC unroll 8
    for (int j = 0; j < kSteps; ++j) {
        const int half = (step + j) / 4;
        const int dword = (step + j) % 4;
        const __m256i w = _mm256_load_si256(
            reinterpret_cast<const __m256i*>(tile.panel->codes[g][half][b * 4 + dword]));
#pragma GCC unroll 4
        for (int c = 0; c < kColumns; ++c) {
            const __m256i q = broadcast_dword(tile.columns[c][g].q[kPlane][half][b] + 4 * dword);
            __m256i product;
            if constexpr (Format::kKind == Kind::kSigned) {
                product = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w));
            } else {
                product = _mm256_maddubs_epi16(w, q);
            }
            pairs[c] = j == 0 ? product : _mm256_add_epi16(pairs[c], product);
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
        dots[c] = _mm256_add_epi32(dots[c], _mm256_madd_epi16(pairs[c], _mm256_set1_epi16(1)));
    }
}

template <int kColumns>
inline void add_scaled(__m256 (&sums)[kColumns],
                       const __m256i (&dots)[kColumns],
                       const float* scales,
                       const Tile& tile,
                       int g,
                       int b) {
    const __m256 s = _mm256_load_ps(scales);
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
        const __m256 x = _mm256_set1_ps(tile.columns[c][g].scale[b]);
        sums[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[c]), _mm256_mul_ps(s, x), sums[c]);
    }
}

/// Adds dwords [first, first + n) of block b in both planes; the sums of the high one count 256
/// times, and the offset's correction joins between them.
template <class Format, int kDwords, int kColumns>
inline void add_planes(__m256i (&dots)[kColumns], const Tile& tile, int g, int b, int half) {
    const int first = half < 0 ? 0 : 4 * half;
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
        dots[c] = _mm256_setzero_si256();
    }
#pragma GCC unroll 8
    for (int step = 0; step < kDwords; step += Format::kMaddSteps) {
        add_steps<Format, 0>(dots, tile, g, b, first + step);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
        const PackedGroup& x = tile.columns[c][g];
        const int sum = half < 0 ? x.negative_sum[b] : x.negative_half_sum[half][b];
        dots[c] = _mm256_add_epi32(_mm256_slli_epi32(dots[c], 8),
                                   _mm256_set1_epi32(sum * Format::kOffset));
    }
#pragma GCC unroll 8
    for (int step = 0; step < kDwords; step += Format::kMaddSteps) {
        add_steps<Format, 1>(dots, tile, g, b, first + step);
    }
}

template <class Format, int kColumns>
inline void add_block(__m256 (&sums)[kColumns], const Tile& tile, int g, int b) {
    const Panel& panel = *tile.panel;
    __m256i dots[kColumns];
    if constexpr (Format::kKind == Kind::kHalfScales) {
        for (int half = 0; half < 2; ++half) {
            add_planes<Format, 4>(dots, tile, g, b, half);
            add_scaled(sums, dots, panel.scales[g][b][half], tile, g, b);
        }
        return;
    }
    add_planes<Format, 8>(dots, tile, g, b, -1);
    add_scaled(sums, dots, panel.scales[g][b][0], tile, g, b);
    if constexpr (Format::kKind == Kind::kMinimum) {
        const __m256 m = _mm256_load_ps(panel.scales[g][b][1]);
#pragma GCC unroll 4
        for (int c = 0; c < kColumns; ++c) {
            const __m256 x = _mm256_set1_ps(tile.columns[c][g].scaled_sum[b]);
            sums[c] = _mm256_fmadd_ps(m, x, sums[c]);
        }
    }
}

template <class Format, int kColumns>
void multiply_tile(const Tile& tile) {
    const __m256 rows = Simd::first(tile.n_rows);
    __m256 sums[kColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
        const float* out = tile.out + static_cast<std::size_t>(c) * tile.out_stride;
        sums[c] = tile.first ? _mm256_setzero_ps() : Simd::load(rows, out);
    }
    for (int block = 0; block < tile.n_blocks; ++block) {
        add_block<Format, kColumns>(sums, tile, block / kGroupBlocks, block % kGroupBlocks);
    }
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
        Simd::store(rows, tile.out + static_cast<std::size_t>(c) * tile.out_stride, sums[c]);
    }
}

/// Unpacks up to 8 rows of one chunk.
template <class Format>
void unpack_panel(
    const std::uint8_t* weights, std::size_t row_bytes, int n_rows, int n_blocks, Panel& panel) {
    for (int block = 0; block < n_blocks; block += kGroupBlocks * Format::kStepGroups) {
        const int group = block / kGroupBlocks;
        __m256 codes[Format::kStepGroups][2][2][kPanelRows];
        for (int r = 0; r < kPanelRows; ++r) {
            // Rows past the last repeat it; their sums are not stored.
            const int source = r < n_rows ? r : n_rows - 1;
            const std::uint8_t* p = weights + static_cast<std::size_t>(source) * row_bytes +
                                    group / Format::kStepGroups * Format::kStepBytes;
            Unpacked w[Format::kStepGroups];
            Format::unpack(p, n_blocks - block, w);
            for (int part = 0; part < Format::kStepGroups; ++part) {
                for (int i = 0; i < 4; ++i) {
                    codes[part][i / 2][i % 2][r] = _mm256_castsi256_ps(w[part].half[i / 2][i % 2]);
                }
                alignas(32) float scales[8];
                _mm256_store_ps(scales, w[part].scales);
                for (int b = 0; b < kGroupBlocks; ++b) {
                    panel.scales[group + part][b][0][r] = scales[b];
                    panel.scales[group + part][b][1][r] = scales[4 + b];
                }
            }
        }
        for (int part = 0; part < Format::kStepGroups; ++part) {
            for (int i = 0; i < 4; ++i) {
                __m256* square = codes[part][i / 2][i % 2];
                Simd::transpose(square);
                for (int d = 0; d < 8; ++d) {
                    _mm256_store_si256(
                        reinterpret_cast<__m256i*>(panel.codes[group + part][i / 2][i % 2 * 8 + d]),
                        _mm256_castps_si256(square[d]));
                }
            }
        }
    }
}

template <class Format>
void matmul_of(const LinearArgs& args) {
    static constexpr void (*kByColumns[kTileColumns])(const Tile&) = {multiply_tile<Format, 1>,
                                                                      multiply_tile<Format, 2>,
                                                                      multiply_tile<Format, 3>,
                                                                      multiply_tile<Format, 4>};
    auto& panel = *reinterpret_cast<Panel*>(args.scratch);
    const auto* weights = reinterpret_cast<const std::uint8_t*>(args.weights);
    const std::size_t n_blocks = args.k / kBlockElements;
    constexpr std::size_t kChunkBlocks = static_cast<std::size_t>(kChunkGroups) * kGroupBlocks;
    constexpr std::size_t kChunkBytes = kChunkGroups / Format::kStepGroups * Format::kStepBytes;
    for (std::size_t row = 0; row < args.n_rows; row += kPanelRows) {
        const std::size_t rows_left = args.n_rows - row;
        for (std::size_t block = 0; block < n_blocks; block += kChunkBlocks) {
            const std::size_t chunk = block / kChunkBlocks;
            const std::size_t blocks_left = n_blocks - block;
            Tile tile{};
            tile.panel = &panel;
            tile.n_blocks =
                static_cast<int>(blocks_left < kChunkBlocks ? blocks_left : kChunkBlocks);
            tile.out_stride = args.out_stride;
            tile.n_rows = rows_left < kPanelRows ? static_cast<int>(rows_left) : kPanelRows;
            tile.first = block == 0;
            unpack_panel<Format>(weights + row * args.row_bytes + chunk * kChunkBytes,
                                 args.row_bytes,
                                 tile.n_rows,
                                 tile.n_blocks,
                                 panel);
            for (std::size_t c = 0; c < args.n_columns; c += kTileColumns) {
                const std::size_t left = args.n_columns - c;
                const std::size_t n_columns = left < kTileColumns ? left : kTileColumns;
                for (std::size_t i = 0; i < n_columns; ++i) {
                    tile.columns[i] = reinterpret_cast<const PackedGroup*>(
                                          args.activations + (c + i) * args.activation_bytes) +
                                      chunk * kChunkGroups;
                }
                tile.out = args.out + c * args.out_stride + row;
                kByColumns[n_columns - 1](tile);
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

}  // namespace ballast::kernels::avx2
