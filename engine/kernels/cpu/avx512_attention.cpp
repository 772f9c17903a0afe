// SPDX-License-Identifier: MIT
// Attention over paged keys and values, for decode and prefill alike. Up to 64 query rows walk
// through the sequence's blocks of 32 positions together; a block's keys are turned once to
// [head_dim][32] and its values to float32, then tiles of 6 rows pass over both.
//
// Bits: a row's score is the sum over d in order, in the lane of its key; its softmax and its sum
// over values take all 32 slots in order. Slots that the row must not see get the weight 0 and
// finite values, which leaves sums as they are, up to the sign of a zero; the last step adds +0,
// which makes that sign positive. So the other rows of a call cannot be told from the result.
#include <immintrin.h>

#include "engine/kernels/cpu/avx512.h"
#include "engine/kernels/cpu/avx512_math.h"
#include "engine/kernels/cpu/avx512_transpose.h"
#include "engine/kernels/cpu/tables.h"

namespace ballast::kernels::avx512 {
namespace {

constexpr int kTileRows = 6;
constexpr std::size_t kSlots = kKvBlockTokens;
static_assert(kSlots == 32);

struct alignas(64) Scratch {
    float keys[kHeadDimMax][kSlots];    // turned: element d of 32 keys
    float values[kSlots][kHeadDimMax];  // zero in slots that no row of the call sees
    float sums[kAttentionRowsMax][kHeadDimMax];
    float weights[kTileRows][kSlots];
    float maximum[kAttentionRowsMax];
    float total[kAttentionRowsMax];
};

/// Rows [first, first + n) of a call, counted token by token, heads of a token side by side.
struct Rows {
    const AttentionArgs& args;
    std::size_t first;
    int n;
    std::size_t dim_padded;

    std::int64_t token(int r) const {
        return static_cast<std::int64_t>((first + static_cast<std::size_t>(r)) /
                                         static_cast<std::size_t>(args.n_heads));
    }
    std::size_t head(int r) const {
        return (first + static_cast<std::size_t>(r)) % static_cast<std::size_t>(args.n_heads);
    }
    std::int64_t last_position(int r) const { return args.first_position + token(r); }
    std::int64_t first_position(int r) const {
        const std::int64_t begin = last_position(r) - args.window + 1;
        return args.window > 0 && begin > 0 ? begin : 0;
    }
    const float* q(int r) const {
        return args.q + static_cast<std::size_t>(token(r)) * args.q_token_stride +
               head(r) * args.q_head_stride;
    }
    float* out(int r) const {
        return args.out + static_cast<std::size_t>(token(r)) * args.out_token_stride +
               head(r) * args.out_head_stride;
    }
};

inline __m512 load_16(const AttentionArgs& args,
                      const std::byte* block,
                      std::size_t slot,
                      std::size_t d) {
    const std::size_t i = slot * args.head_dim + d;
    const __mmask16 mask = first_lanes(static_cast<std::ptrdiff_t>(args.head_dim - d));
    if (args.kv_type == KvType::kF16) {
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, block + i * 2));
    }
    return _mm512_maskz_loadu_ps(mask, block + i * 4);
}

void load_keys(const AttentionArgs& args, const std::byte* block, Scratch& s) {
    for (std::size_t slot = 0; slot < kSlots; slot += 16) {
        for (std::size_t d = 0; d < args.head_dim; d += 16) {
            __m512i square[16];
            for (std::size_t i = 0; i < 16; ++i) {
                square[i] = _mm512_castps_si512(load_16(args, block, slot + i, d));
            }
            transpose_16x16(square);
            for (std::size_t i = 0; i < 16; ++i) {
                _mm512_store_si512(&s.keys[d + i][slot], square[i]);
            }
        }
    }
}

void load_values(const AttentionArgs& args,
                 const std::byte* block,
                 std::int64_t first_slot,
                 std::int64_t last_slot,
                 Scratch& s) {
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
        const auto index = static_cast<std::int64_t>(slot);
        const bool seen = index >= first_slot && index <= last_slot;
        for (std::size_t d = 0; d < args.head_dim; d += 16) {
            _mm512_store_ps(&s.values[slot][d],
                            seen ? load_16(args, block, slot, d) : _mm512_setzero_ps());
        }
    }
}

/// Dot products of kRows rows with the 32 keys into s.weights.
template <int kRows>
void score_rows(const Rows& rows, int row, Scratch& s) {
    const float* q[kRows];
    __m512 dots[kRows][2];
    for (int r = 0; r < kRows; ++r) {
        q[r] = rows.q(row + r);
        dots[r][0] = _mm512_setzero_ps();
        dots[r][1] = _mm512_setzero_ps();
    }
    for (std::size_t d = 0; d < rows.args.head_dim; ++d) {
        const __m512 k0 = _mm512_load_ps(s.keys[d]);
        const __m512 k1 = _mm512_load_ps(s.keys[d] + 16);
#pragma GCC unroll 6
        for (int r = 0; r < kRows; ++r) {
            const __m512 x = _mm512_set1_ps(q[r][d]);
            dots[r][0] = _mm512_fmadd_ps(x, k0, dots[r][0]);
            dots[r][1] = _mm512_fmadd_ps(x, k1, dots[r][1]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
        _mm512_store_ps(s.weights[r], dots[r][0]);
        _mm512_store_ps(s.weights[r] + 16, dots[r][1]);
    }
}

inline __m512 final_score(const AttentionArgs& args, __m512 dot) {
    const __m512 scaled = _mm512_mul_ps(dot, _mm512_set1_ps(args.scale));
    if (args.soft_cap > 0.0F) {
        const __m512 cap = _mm512_set1_ps(args.soft_cap);
        return _mm512_mul_ps(cap, tanh16(_mm512_div_ps(scaled, cap)));
    }
    return scaled;
}

/// Turns the dots of tile row r into softmax weights and returns what the row's sums so far must
/// be multiplied by.
float weigh_row(const Rows& rows, int row, int r, std::int64_t base, Scratch& s) {
    const int i = row + r;
    const std::int64_t begin = rows.first_position(i) - base;
    const std::int64_t end = rows.last_position(i) - base + 1;
    const __mmask16 seen[2] = {
        static_cast<__mmask16>(first_lanes(end) & ~first_lanes(begin)),
        static_cast<__mmask16>(first_lanes(end - 16) & ~first_lanes(begin - 16))};
    const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
    __m512 scores[2];
    for (int half = 0; half < 2; ++half) {
        scores[half] = _mm512_mask_mov_ps(
            lowest, seen[half], final_score(rows.args, _mm512_load_ps(s.weights[r] + 16 * half)));
    }
    const float block_maximum = _mm512_reduce_max_ps(_mm512_max_ps(scores[0], scores[1]));
    const float maximum = block_maximum > s.maximum[i] ? block_maximum : s.maximum[i];
    __m512 weights[2];
    for (int half = 0; half < 2; ++half) {
        weights[half] = _mm512_maskz_mov_ps(
            seen[half], exp16(_mm512_sub_ps(scores[half], _mm512_set1_ps(maximum))));
        _mm512_store_ps(s.weights[r] + 16 * half, weights[half]);
    }
    const float correction = _mm512_cvtss_f32(exp16(_mm512_set1_ps(s.maximum[i] - maximum)));
    s.total[i] =
        s.total[i] * correction + _mm512_reduce_add_ps(_mm512_add_ps(weights[0], weights[1]));
    s.maximum[i] = maximum;
    return correction;
}

/// Adds the weighted values to elements [d, d + 16 kVectors) of kRows rows.
template <int kRows, int kVectors>
void add_values(int row, const float* corrections, std::size_t d, Scratch& s) {
    __m512 sums[kRows][kVectors];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
        const __m512 correction = _mm512_set1_ps(corrections[r]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
            sums[r][v] = _mm512_mul_ps(_mm512_load_ps(s.sums[row + r] + d + 16 * v), correction);
        }
    }
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
        __m512 values[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
            values[v] = _mm512_load_ps(s.values[slot] + d + 16 * v);
        }
#pragma GCC unroll 6
        for (int r = 0; r < kRows; ++r) {
            const __m512 weight = _mm512_set1_ps(s.weights[r][slot]);
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) {
                sums[r][v] = _mm512_fmadd_ps(weight, values[v], sums[r][v]);
            }
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
            _mm512_store_ps(s.sums[row + r] + d + 16 * v, sums[r][v]);
        }
    }
}

template <int kRows>
void attend_tile(const Rows& rows, int row, std::int64_t base, Scratch& s) {
    score_rows<kRows>(rows, row, s);
    float corrections[kRows];
    for (int r = 0; r < kRows; ++r) {
        corrections[r] = weigh_row(rows, row, r, base, s);
    }
    std::size_t d = 0;
    for (; d + 64 <= rows.dim_padded; d += 64) {
        add_values<kRows, 4>(row, corrections, d, s);
    }
    for (; d + 32 <= rows.dim_padded; d += 32) {
        add_values<kRows, 2>(row, corrections, d, s);
    }
    if (d < rows.dim_padded) {
        add_values<kRows, 1>(row, corrections, d, s);
    }
}

void attend_rows(const Rows& rows, std::int64_t block, Scratch& s) {
    const std::int64_t base = block * kKvBlockTokens;
    // Both ends of a row's range grow with the row, so the rows that see this block are a run.
    int begin = 0;
    while (rows.last_position(begin) < base) {
        ++begin;
    }
    int end = begin;
    while (end < rows.n && rows.first_position(end) < base + kKvBlockTokens) {
        ++end;
    }
    load_keys(rows.args, rows.args.key_blocks[block], s);
    load_values(rows.args,
                rows.args.value_blocks[block],
                rows.first_position(0) - base,
                rows.last_position(rows.n - 1) - base,
                s);
    static constexpr void (*kByRows[kTileRows])(const Rows&, int, std::int64_t, Scratch&) = {
        attend_tile<1>,
        attend_tile<2>,
        attend_tile<3>,
        attend_tile<4>,
        attend_tile<5>,
        attend_tile<6>};
    for (int row = begin; row < end; row += kTileRows) {
        const int n = end - row < kTileRows ? end - row : kTileRows;
        kByRows[n - 1](rows, row, base, s);
    }
}

void finish_row(const Rows& rows, int r, const Scratch& s) {
    float* out = rows.out(r);
    for (std::size_t d = 0; d < rows.args.head_dim; d += 16) {
        const __mmask16 mask = first_lanes(static_cast<std::ptrdiff_t>(rows.args.head_dim - d));
        const __m512 mean =
            _mm512_div_ps(_mm512_load_ps(s.sums[r] + d), _mm512_set1_ps(s.total[r]));
        _mm512_mask_storeu_ps(out + d, mask, _mm512_add_ps(mean, _mm512_setzero_ps()));
    }
}

}  // namespace

const std::size_t kAttentionScratchBytes = sizeof(Scratch);

void attention(const AttentionArgs& args) {
    auto& s = *reinterpret_cast<Scratch*>(args.scratch);
    const std::size_t n_rows =
        static_cast<std::size_t>(args.n_tokens) * static_cast<std::size_t>(args.n_heads);
    for (std::size_t first = 0; first < n_rows; first += kAttentionRowsMax) {
        const std::size_t left = n_rows - first;
        const int n = left < kAttentionRowsMax ? static_cast<int>(left) : kAttentionRowsMax;
        const Rows rows = {args, first, n, (args.head_dim + 15) / 16 * 16};
        for (int r = 0; r < n; ++r) {
            s.maximum[r] = -__builtin_inff();
            s.total[r] = 0.0F;
            for (std::size_t d = 0; d < rows.dim_padded; d += 16) {
                _mm512_store_ps(s.sums[r] + d, _mm512_setzero_ps());
            }
        }
        const std::int64_t last_block = rows.last_position(n - 1) / kKvBlockTokens;
        for (std::int64_t block = rows.first_position(0) / kKvBlockTokens; block <= last_block;
             ++block) {
            attend_rows(rows, block, s);
        }
        for (int r = 0; r < n; ++r) {
            finish_row(rows, r, s);
        }
    }
}

}  // namespace ballast::kernels::avx512
