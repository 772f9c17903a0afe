// SPDX-License-Identifier: MIT
// One function an op.
#include "engine/backend/op_bytes.h"

#include <algorithm>
#include <array>
#include <variant>

#include "engine/backend/expert_choice.h"

namespace ballast::backend {

namespace {

constexpr std::int64_t kBlockTokens = kernels::kKvBlockTokens;

std::size_t count_of(std::int64_t value) {
    return static_cast<std::size_t>(value);
}

/// What one op in its step touches.
class Touches {
  public:
    Touches(std::size_t n_rows, const StepContext& context, std::vector<Touch>& to)
        : n_rows_(n_rows), context_(context), to_(to) {}

    void note(const Embed& op) {
        const WeightView& table = weight(op.table);
        for (std::size_t row = 0; row < n_rows_; ++row) {
            const auto token = count_of(context_.input.tokens[row]);
            add({.data = table.data + token * table.row_bytes, .row_bytes = table.row_bytes},
                false);
        }
        slot(op.out, table.k, true);
    }
    void note(const RmsNorm& op) {
        add({.data = weight(op.weight).data, .row_bytes = count_of(op.width) * sizeof(float)},
            false);
        const std::size_t width = count_of(op.width) * count_of(op.n_groups);
        slot(op.in, width, false);
        slot(op.out, width, true);
    }
    void note(const Linear& op) {
        for (std::size_t i = 0; i < count_of(op.n_matrices); ++i) {
            const WeightView& matrix = weight(op.weights[i]);
            unit(op.weights[i], 1);
            slot(op.in, matrix.k, false);
            slot(op.outs[i], matrix.n_rows, true);
        }
    }
    void note(const Rope& op) {
        const RopeView& table = context_.rope[count_of(op.table)];
        for (const float* angles : {table.cos, table.sin}) {
            add(floats(angles, n_rows_ * table.half), false);
        }
        change(op.q, count_of(op.n_heads) * count_of(op.head_dim));
        change(op.k, count_of(op.n_kv_heads) * count_of(op.head_dim));
    }
    void note(const Attention& op) {
        const std::size_t kv_width = count_of(op.n_kv_heads) * count_of(op.head_dim);
        const std::size_t width = count_of(op.n_heads) * count_of(op.head_dim);
        slot(op.k, kv_width, false);
        slot(op.v, kv_width, false);
        for (const SequenceRows& sequence : context_.input.sequences) {
            const std::int64_t first = sequence.first_position;
            const std::int64_t end = first + sequence.n_rows;
            positions(op, sequence, first, end, true);
            const std::int64_t seen = op.window > 0 ? first - op.window + 1 : 0;
            positions(op, sequence, std::max<std::int64_t>(seen, 0), end, false);
        }
        slot(op.q, width, false);
        slot(op.out, width, true);
    }
    void note(const GatedActivation& op) {
        slot(op.gate, count_of(op.width), false);
        slot(op.up, count_of(op.width), false);
        slot(op.out, count_of(op.width), true);
    }
    void note(const Add& op) {
        slot(op.y, count_of(op.width), false);
        change(op.x, count_of(op.width));
    }
    void note(const Router& op) {
        unit(op.weight, 1);
        slot(op.in, weight(op.weight).k, false);
        slot(op.choice, count_of(choice_width(op.n_used)), true);
    }
    void note(const Experts& op) {
        for (const UnitId each : {op.gate, op.up, op.down}) {
            experts(each, context_.expert_slices(op.layer));
        }
        slot(op.in, count_of(op.width), false);
        slot(op.choice, count_of(choice_width(op.n_used)), false);
        slot(op.out, count_of(op.width), true);
    }
    void note(const GatherOutputs& op) {
        const SlotView& in = context_.slots[count_of(op.in)];
        for (const std::int32_t row : context_.input.output_rows) {
            add(floats(in.row(count_of(row)), count_of(op.width)), false);
        }
        slot(op.out, count_of(op.width), true);
    }

  private:
    static ByteRows floats(const float* data, std::size_t n) {
        return {.data = reinterpret_cast<const std::byte*>(data), .row_bytes = n * sizeof(float)};
    }
    void add(const ByteRows& bytes, bool writes) {
        if (!bytes.empty()) {
            to_.push_back({.bytes = bytes, .writes = writes});
        }
    }
    const WeightView& weight(UnitId unit) const { return context_.weights[count_of(unit)]; }

    void unit(UnitId id, std::size_t n_slices) {
        const WeightView& view = weight(id);
        const std::size_t row = quant::row_bytes(view.type, view.k);
        if (row < view.row_bytes) {  // some columns of a tensor
            add({.data = view.data,
                 .row_bytes = row,
                 .n_rows = n_slices * view.n_rows,
                 .stride = view.row_bytes},
                false);
        } else {
            add({.data = view.data, .row_bytes = n_slices * view.slice_bytes()}, false);
        }
    }
    /// The slices that hold an expert, in runs of neighbours.
    void experts(UnitId id, const ExpertSlices& slices) {
        const WeightView& view = weight(id);
        if (slices.slice_of.empty()) {
            unit(id, view.n_slices);
            return;
        }
        std::vector<bool> held(view.n_slices);
        for (const std::int32_t slice : slices.slice_of) {
            if (slice >= 0) {
                held[count_of(slice)] = true;
            }
        }
        for (std::size_t begin = 0; begin < held.size();) {
            std::size_t end = begin;
            while (end < held.size() && held[end]) {
                ++end;
            }
            add({.data = view.data + begin * view.slice_bytes(),
                 .row_bytes = (end - begin) * view.slice_bytes()},
                false);
            begin = end + 1;
        }
    }
    /// The first `width` floats of the step's rows.
    void slot(SlotId id, std::size_t width, bool writes) {
        const SlotView& view = context_.slots[count_of(id)];
        ByteRows bytes = floats(view.data, width);
        bytes.n_rows = n_rows_;
        bytes.stride = view.width * sizeof(float);
        add(bytes, writes);
    }
    void change(SlotId id, std::size_t width) {
        slot(id, width, false);
        slot(id, width, true);
    }
    /// Keys and values of positions [begin, end) in the heads that the op works on.
    void positions(const Attention& op,
                   const SequenceRows& sequence,
                   std::int64_t begin,
                   std::int64_t end,
                   bool writes) {
        while (begin < end) {
            const std::int64_t block = begin / kBlockTokens;
            const std::int64_t block_end = std::min(end, (block + 1) * kBlockTokens);
            for (const KvRangeView& range : context_.kv[count_of(op.layer)].ranges) {
                const int first_head = std::max(range.first_head, op.first_kv_head);
                const int end_head =
                    std::min(range.first_head + range.n_heads, op.first_kv_head + op.n_kv_heads);
                if (first_head >= end_head) {
                    continue;
                }
                const std::size_t token_bytes = range.head_bytes / count_of(kBlockTokens);
                const std::size_t offset =
                    count_of(sequence.blocks[count_of(block)]) * range.block_bytes +
                    count_of(first_head - range.first_head) * range.head_bytes +
                    count_of(begin - block * kBlockTokens) * token_bytes;
                for (const std::byte* kv : {range.keys, range.values}) {
                    add({.data = kv + offset,
                         .row_bytes = count_of(block_end - begin) * token_bytes,
                         .n_rows = count_of(end_head - first_head),
                         .stride = range.head_bytes},
                        writes);
                }
            }
            begin = block_end;
        }
    }

    std::size_t n_rows_;
    const StepContext& context_;
    std::vector<Touch>& to_;
};

}  // namespace

void append_touches(const OpRecord& record, const StepContext& context, std::vector<Touch>& to) {
    const std::size_t n_rows = record.rows == RowDomain::kAll ? context.input.tokens.size()
                                                              : context.input.output_rows.size();
    if (n_rows > 0) {
        Touches touches(n_rows, context, to);
        std::visit([&](const auto& op) { touches.note(op); }, record.op);
    }
}

const char* name_of(const Op& op) {
    constexpr std::array<const char*, std::variant_size_v<Op>> kNames = {"Embed",
                                                                         "RmsNorm",
                                                                         "Linear",
                                                                         "Rope",
                                                                         "Attention",
                                                                         "GatedActivation",
                                                                         "Add",
                                                                         "Router",
                                                                         "Experts",
                                                                         "GatherOutputs"};
    return kNames[op.index()];
}

}  // namespace ballast::backend
