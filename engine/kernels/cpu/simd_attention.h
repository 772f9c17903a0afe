// SPDX-License-Identifier: MIT
// Attention over paged keys and values, for decode and prefill alike, over an instruction set's
// Simd. Up to 64 query rows walk through the sequence's blocks of 32 positions together; a block's
// keys are turned once to [head_dim][32] and its values to float32, then tiles of rows pass over
// both.
//
// Bits: a row's score is the sum over d in order, in the lane of its key; its softmax and its sum
// over values take all 32 slots in order. Slots that the row must not see get the weight 0 and
// finite values, which leaves sums as they are, up to the sign of a zero; the last step adds +0,
// which makes that sign positive. So the other rows of a call cannot be told from the result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/cpu/kernel_table.h"
#include "engine/kernels/cpu/simd_math.h"
#include "engine/kernels/cpu/tables.h"

namespace ballast::kernels::simd {

template <class Simd>
struct Attention {
    using Float = typename Simd::Float;
    using Mask = typename Simd::Mask;
    static constexpr std::size_t kLanes = Simd::kLanes;
    static constexpr std::size_t kSlots = kKvBlockTokens;
    static constexpr int kSlotVectors = static_cast<int>(kSlots / kLanes);
    // Rows of a tile: their sums, of kSlotVectors or kWideVectors registers each, stay in the
    // register file (24 of 32, or 12 of 16).
    static constexpr int kTileRows = Simd::kAttentionRows;
    static constexpr int kWideVectors = 4;

    struct alignas(64) Scratch {
        float keys[kHeadDimMax][kSlots];    // turned: element d of 32 keys
        float values[kSlots][kHeadDimMax];  // zero in slots that no row of the call sees
        float sums[kAttentionRowsMax][kHeadDimMax];
        float weights[kTileRows][kSlots];
        float corrections[kTileRows];
        float maximum[kAttentionRowsMax];
        float total[kAttentionRowsMax];
    };

    /// Rows of a call, counted token by token, heads of a token side by side.
    const AttentionArgs& args;
    Scratch& s;
    std::size_t first = 0;
    int n = 0;

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
    std::size_t padded_dim() const { return (args.head_dim + kLanes - 1) / kLanes * kLanes; }

    Float load_kv(const std::byte* block, std::size_t slot, std::size_t d) const {
        const std::size_t i = slot * args.head_dim + d;
        const auto left = static_cast<std::ptrdiff_t>(args.head_dim - d);
        if (args.kv_type == KvType::kF16) {
            return Simd::load_halves(block + i * 2, left);
        }
        return Simd::load(Simd::first(left), reinterpret_cast<const float*>(block) + i);
    }

    void load_keys(const std::byte* block) {
        for (std::size_t slot = 0; slot < kSlots; slot += kLanes) {
            for (std::size_t d = 0; d < args.head_dim; d += kLanes) {
                Float square[kLanes];
                for (std::size_t i = 0; i < kLanes; ++i) {
                    square[i] = load_kv(block, slot + i, d);
                }
                Simd::transpose(square);
                for (std::size_t i = 0; i < kLanes; ++i) {
                    Simd::store(&s.keys[d + i][slot], square[i]);
                }
            }
        }
    }

    void load_values(const std::byte* block, std::int64_t first_slot, std::int64_t last_slot) {
        for (std::size_t slot = 0; slot < kSlots; ++slot) {
            const auto index = static_cast<std::int64_t>(slot);
            const bool seen = index >= first_slot && index <= last_slot;
            for (std::size_t d = 0; d < args.head_dim; d += kLanes) {
                Simd::store(&s.values[slot][d], seen ? load_kv(block, slot, d) : Simd::zero());
            }
        }
    }

    /// Dot products of kRows rows with the 32 keys into s.weights.
    template <int kRows>
    void score_rows(int row) {
        const float* query[kRows];
        Float dots[kRows][kSlotVectors];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            query[r] = q(row + r);
#pragma GCC unroll 4
            for (int v = 0; v < kSlotVectors; ++v) {
                dots[r][v] = Simd::zero();
            }
        }
        for (std::size_t d = 0; d < args.head_dim; ++d) {
            Float keys[kSlotVectors];
#pragma GCC unroll 4
            for (int v = 0; v < kSlotVectors; ++v) {
                keys[v] = Simd::load(s.keys[d] + v * Simd::kLanes);
            }
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
                const Float x = Simd::set(query[r][d]);
#pragma GCC unroll 4
                for (int v = 0; v < kSlotVectors; ++v) {
                    dots[r][v] = Simd::fma(x, keys[v], dots[r][v]);
                }
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
            for (int v = 0; v < kSlotVectors; ++v) {
                Simd::store(s.weights[r] + v * Simd::kLanes, dots[r][v]);
            }
        }
    }

    Float final_score(Float dot) const {
        const Float scaled = Simd::mul(dot, Simd::set(args.scale));
        if (args.soft_cap > 0.0F) {
            const Float cap = Simd::set(args.soft_cap);
            return Simd::mul(cap, tanh<Simd>(Simd::div(scaled, cap)));
        }
        return scaled;
    }

    /// Turns the dots of tile row r into softmax weights; s.corrections[r] becomes what the row's
    /// sums so far must be multiplied by.
    void weigh_row(int row, int r, std::int64_t base) {
        const int i = row + r;
        const auto begin = static_cast<std::ptrdiff_t>(first_position(i) - base);
        const auto end = static_cast<std::ptrdiff_t>(last_position(i) - base + 1);
        Mask seen[kSlotVectors];
        Float scores[kSlotVectors];
        Float largest = Simd::set(-__builtin_inff());
        for (int v = 0; v < kSlotVectors; ++v) {
            const std::ptrdiff_t slot = v * Simd::kLanes;
            seen[v] = Simd::and_not(Simd::first(end - slot), Simd::first(begin - slot));
            scores[v] = Simd::select(seen[v],
                                     final_score(Simd::load(s.weights[r] + slot)),
                                     Simd::set(-__builtin_inff()));
            largest = Simd::max(largest, scores[v]);
        }
        const float block_maximum = Simd::largest(largest);
        const float maximum = block_maximum > s.maximum[i] ? block_maximum : s.maximum[i];
        Float sum = Simd::zero();
        for (int v = 0; v < kSlotVectors; ++v) {
            const Float weights = Simd::select(
                seen[v], exp<Simd>(Simd::sub(scores[v], Simd::set(maximum))), Simd::zero());
            Simd::store(s.weights[r] + v * Simd::kLanes, weights);
            sum = Simd::add(sum, weights);
        }
        float correction[kLanes];
        Simd::store(correction, exp<Simd>(Simd::set(s.maximum[i] - maximum)));
        s.corrections[r] = correction[0];
        s.total[i] = s.total[i] * correction[0] + Simd::sum(sum);
        s.maximum[i] = maximum;
    }

    /// Adds the weighted values to elements [d, d + kVectors · kLanes) of kRows rows.
    template <int kRows, int kVectors>
    void add_values(int row, std::size_t d) {
        Float sums[kRows][kVectors];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            const Float correction = Simd::set(s.corrections[r]);
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) {
                const float* sum = s.sums[row + r] + d + v * Simd::kLanes;
                sums[r][v] = Simd::mul(Simd::load(sum), correction);
            }
        }
        for (std::size_t slot = 0; slot < kSlots; ++slot) {
            Float values[kVectors];
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) {
                values[v] = Simd::load(s.values[slot] + d + v * Simd::kLanes);
            }
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
                const Float weight = Simd::set(s.weights[r][slot]);
#pragma GCC unroll 4
                for (int v = 0; v < kVectors; ++v) {
                    sums[r][v] = Simd::fma(weight, values[v], sums[r][v]);
                }
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) {
                Simd::store(s.sums[row + r] + d + v * Simd::kLanes, sums[r][v]);
            }
        }
    }

    template <int kRows>
    void attend_tile(int row, std::int64_t base) {
        score_rows<kRows>(row);
        for (int r = 0; r < kRows; ++r) {
            weigh_row(row, r, base);
        }
        const std::size_t dim = padded_dim();
        std::size_t d = 0;
        for (; d + kWideVectors * kLanes <= dim; d += kWideVectors * kLanes) {
            add_values<kRows, kWideVectors>(row, d);
        }
        for (; d < dim; d += kLanes) {
            add_values<kRows, 1>(row, d);
        }
    }

    /// Cuts n_rows rows into tiles: whole ones, then one of what is left.
    template <int kRows>
    void attend_tiles(int row, int n_rows, std::int64_t base) {
        for (; n_rows >= kRows; row += kRows, n_rows -= kRows) {
            attend_tile<kRows>(row, base);
        }
        if constexpr (kRows > 1) {
            attend_tiles<kRows - 1>(row, n_rows, base);
        }
    }

    void attend_block(std::int64_t block) {
        const std::int64_t base = block * kKvBlockTokens;
        // Both ends of a row's range grow with the row, so the rows that see a block are a run.
        int begin = 0;
        while (last_position(begin) < base) {
            ++begin;
        }
        int end = begin;
        while (end < n && first_position(end) < base + kKvBlockTokens) {
            ++end;
        }
        load_keys(args.key_blocks[block]);
        load_values(
            args.value_blocks[block], first_position(0) - base, last_position(n - 1) - base);
        attend_tiles<kTileRows>(begin, end - begin, base);
    }

    void finish_row(int r) {
        for (std::size_t d = 0; d < args.head_dim; d += kLanes) {
            const Float mean = Simd::div(Simd::load(s.sums[r] + d), Simd::set(s.total[r]));
            Simd::store(Simd::first(static_cast<std::ptrdiff_t>(args.head_dim - d)),
                        out(r) + d,
                        Simd::add(mean, Simd::zero()));
        }
    }

    void attend_rows() {
        for (int r = 0; r < n; ++r) {
            s.maximum[r] = -__builtin_inff();
            s.total[r] = 0.0F;
            for (std::size_t d = 0; d < padded_dim(); d += kLanes) {
                Simd::store(s.sums[r] + d, Simd::zero());
            }
        }
        const std::int64_t last_block = last_position(n - 1) / kKvBlockTokens;
        for (std::int64_t b = first_position(0) / kKvBlockTokens; b <= last_block; ++b) {
            attend_block(b);
        }
        for (int r = 0; r < n; ++r) {
            finish_row(r);
        }
    }

    static void run(const AttentionArgs& args) {
        auto& scratch = *reinterpret_cast<Scratch*>(args.scratch);
        const std::size_t n_rows =
            static_cast<std::size_t>(args.n_tokens) * static_cast<std::size_t>(args.n_heads);
        for (std::size_t row = 0; row < n_rows; row += kAttentionRowsMax) {
            const std::size_t left = n_rows - row;
            const int n = left < kAttentionRowsMax ? static_cast<int>(left) : kAttentionRowsMax;
            Attention{args, scratch, row, n}.attend_rows();
        }
    }
};

}  // namespace ballast::kernels::simd
