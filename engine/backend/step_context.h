// SPDX-License-Identifier: MIT
// What one step binds an op list to: the batch's rows, the weights, the activation slots and the
// KV pages. Views only; the runtime owns the memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/ids.h"
#include "engine/kernels/cpu/kernel_table.h"
#include "engine/quant/type_traits.h"

namespace ballast::backend {

/// Rows of one sequence: tokens at consecutive positions.
struct SequenceRows {
    int first_row = 0;
    int n_rows = 0;
    std::int64_t first_position = 0;
    /// Logical KV block of positions [32·i, 32·i + 32); covers all positions of the rows.
    std::span<const std::int32_t> blocks = {};
};

/// The batch: all that a forward pass sees of it. Decode rows come first, so that each row's
/// arithmetic class follows from its number.
struct StepInput {
    std::span<const TokenId> tokens = {};          // [n_rows]
    std::span<const SequenceRows> sequences = {};  // cover the rows in order
    int n_decode_rows = 0;  // rows [0, n_decode_rows) are of the decode class
    std::span<const std::int32_t> output_rows = {};  // rows whose logits are wanted, ascending

    int n_rows() const { return static_cast<int>(tokens.size()); }
    /// Output rows of the decode class; they come first too.
    int n_decode_outputs() const {
        int n = 0;
        while (n < static_cast<int>(output_rows.size()) &&
               output_rows[static_cast<std::size_t>(n)] < n_decode_rows) {
            ++n;
        }
        return n;
    }
};

/// A weight tensor where a device can read it: n_slices matrices of [n_rows, k].
struct WeightView {
    quant::QuantType type = quant::QuantType::kF32;
    const std::byte* data = nullptr;
    std::size_t n_rows = 0;
    std::size_t k = 0;
    std::size_t row_bytes = 0;
    std::size_t n_slices = 1;

    std::size_t slice_bytes() const { return n_rows * row_bytes; }
    /// Bytes of a slice that a multiplication reads: where these are some columns of a tensor, rows
    /// are farther from each other than they are long.
    std::size_t read_bytes() const {
        return n_rows * std::min(row_bytes, quant::row_bytes(type, k));
    }
    const float* floats() const { return reinterpret_cast<const float*>(data); }
};

/// An activation slot: row r at data + r · width.
struct SlotView {
    float* data = nullptr;
    std::size_t width = 0;
    float* row(std::size_t r) const { return data + r * width; }
};

/// The keys and values of one layer's KV heads [first_head, first_head + n_heads), for all logical
/// blocks: [n_blocks][n_heads][32][head_dim] of the cache's element type.
struct KvRangeView {
    int first_head = 0;
    int n_heads = 0;
    std::byte* keys = nullptr;
    std::byte* values = nullptr;
    std::size_t block_bytes = 0;
    std::size_t head_bytes = 0;  // of one head in one block
};

/// One layer's KV: its ranges in order of heads.
struct KvLayerView {
    kernels::KvType type = kernels::KvType::kF16;
    std::span<const KvRangeView> ranges = {};
};

/// Cosines and sines of a rope table for the step's rows: [n_rows, n_rotated / 2] each.
struct RopeView {
    const float* cos = nullptr;
    const float* sin = nullptr;
    std::size_t half = 0;
};

/// Which experts of a layer one side computes, and where it has them: slice_of[expert] is the slice
/// of this side's stacked units, −1: it is not here, and the rows' sums leave it out. Without
/// slices all are here, each in the slice of its number.
struct ExpertSlices {
    std::span<const std::int32_t> slice_of = {};  // [n_experts], or empty

    int of(int expert) const {
        return slice_of.empty() ? expert : slice_of[static_cast<std::size_t>(expert)];
    }
};

/// Everything an op list runs on.
struct StepContext {
    StepInput input = {};
    std::span<const WeightView> weights = {};  // by UnitId
    std::span<const SlotView> slots = {};      // by SlotId
    std::span<const KvLayerView> kv = {};      // by layer
    std::span<const RopeView> rope = {};       // by table
    /// By layer; empty: all experts of all layers are here.
    std::span<const ExpertSlices> experts = {};

    ExpertSlices expert_slices(int layer) const {
        return experts.empty() ? ExpertSlices{} : experts[static_cast<std::size_t>(layer)];
    }
};

}  // namespace ballast::backend
