// SPDX-License-Identifier: MIT
// One function an op that reads weights or the KV cache; the others count nothing.
#include "engine/backend/op_work.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstddef>

#include "engine/backend/expert_choice.h"

namespace ballast::backend {

namespace {

std::uint64_t count_of(std::int64_t value) {
    return static_cast<std::uint64_t>(value);
}

const WeightView& weight_of(UnitId unit, const StepContext& context) {
    return context.weights[static_cast<std::size_t>(unit)];
}

/// n_slices of a weight times so many columns.
OpWork multiply(const WeightView& weight, std::uint64_t n_slices, std::uint64_t columns) {
    return {.bytes = n_slices * weight.read_bytes(),
            .flops = 2 * weight.n_rows * weight.k * columns};
}

OpWork& operator+=(OpWork& sum, const OpWork& work) {
    sum.bytes += work.bytes;
    sum.flops += work.flops;
    return sum;
}

OpWork work_of(const Embed& op, std::uint64_t rows, const StepContext& context) {
    return {.bytes = rows * weight_of(op.table, context).row_bytes};
}

OpWork work_of(const RmsNorm& op, std::uint64_t /*rows*/, const StepContext& /*context*/) {
    return {.bytes = count_of(op.width) * sizeof(float)};
}

OpWork work_of(const Linear& op, std::uint64_t rows, const StepContext& context) {
    OpWork work;
    for (std::size_t i = 0; i < count_of(op.n_matrices); ++i) {
        work += multiply(weight_of(op.weights[i], context), 1, rows);
    }
    return work;
}

OpWork work_of(const Router& op, std::uint64_t rows, const StepContext& context) {
    return multiply(weight_of(op.weight, context), 1, rows);
}

/// Of a step's rows: pairs of a row and an expert that is here, and how many experts those are.
struct ChosenHere {
    std::uint64_t pairs = 0;
    std::uint64_t experts = 0;
};

ChosenHere chosen_here(const Experts& op,
                       std::uint64_t rows,
                       const ExpertSlices& slices,
                       const SlotView& choice) {
    constexpr std::size_t kExpertsMax = 1024;  // of any model; beyond, all count as one
    std::bitset<kExpertsMax> met;
    ChosenHere chosen;
    for (std::uint64_t row = 0; row < rows; ++row) {
        const ExpertChoice of_row(choice, static_cast<int>(row), op.n_used);
        for (std::size_t rank = 0; rank < of_row.n_used(); ++rank) {
            const int expert = of_row.expert(rank, op.n_experts);
            if (expert >= 0 && slices.of(expert) >= 0) {
                ++chosen.pairs;
                met.set(std::min(static_cast<std::size_t>(expert), kExpertsMax - 1));
            }
        }
    }
    chosen.experts = met.count();
    return chosen;
}

OpWork work_of(const Experts& op, std::uint64_t rows, const StepContext& context) {
    const ExpertSlices slices = context.expert_slices(op.layer);
    const ChosenHere chosen =
        slices.slice_of.empty()
            ? ChosenHere{.pairs = rows * count_of(op.n_used),
                         .experts = std::min(rows * count_of(op.n_used), count_of(op.n_experts))}
            : chosen_here(op, rows, slices, context.slots[static_cast<std::size_t>(op.choice)]);
    OpWork work;
    for (const UnitId unit : {op.gate, op.up, op.down}) {
        work += multiply(weight_of(unit, context), chosen.experts, chosen.pairs);
    }
    return work;
}

OpWork work_of(const Attention& op, std::uint64_t /*rows*/, const StepContext& context) {
    const KvLayerView& layer = context.kv[static_cast<std::size_t>(op.layer)];
    const std::uint64_t element_bytes = layer.type == kernels::KvType::kF16 ? 2 : 4;
    const auto seen = [&](std::int64_t positions) {
        return count_of(op.window > 0 ? std::min<std::int64_t>(op.window, positions) : positions);
    };
    OpWork work;
    for (const SequenceRows& sequence : context.input.sequences) {
        const std::int64_t last = sequence.first_position + sequence.n_rows;
        work.bytes +=
            2 * seen(last) * count_of(op.n_kv_heads) * count_of(op.head_dim) * element_bytes;
        for (int i = 0; i < sequence.n_rows; ++i) {
            work.flops += 4 * seen(sequence.first_position + i + 1) * count_of(op.n_heads) *
                          count_of(op.head_dim);
        }
    }
    return work;
}

template <class Other>
OpWork work_of(const Other& /*op*/, std::uint64_t /*rows*/, const StepContext& /*context*/) {
    return {};
}

/// What `amount` takes at `rate_giga` · 1e9 a second, rounded up; rates of 0 take no time.
Nanoseconds time_at(std::uint64_t amount, double rate_giga) {
    if (rate_giga <= 0.0) {
        return Nanoseconds(0);
    }
    // 1e9 a second is one a nanosecond.
    return Nanoseconds(
        static_cast<std::int64_t>(std::ceil(static_cast<double>(amount) / rate_giga)));
}

}  // namespace

OpWork op_work(const OpRecord& record, const StepContext& context) {
    const std::size_t rows = record.rows == RowDomain::kAll ? context.input.tokens.size()
                                                            : context.input.output_rows.size();
    if (rows == 0) {
        return {};
    }
    return std::visit([&](const auto& op) { return work_of(op, rows, context); }, record.op);
}

ModelledWork modelled_work(std::span<const OpRecord> ops,
                           const StepContext& context,
                           double read_gbps,
                           double gflops) {
    ModelledWork sum;
    for (const OpRecord& record : ops) {
        const OpWork work = op_work(record, context);
        sum.time += std::max(time_at(work.bytes, read_gbps), time_at(work.flops, gflops));
        sum.bytes += work.bytes;
    }
    return sum;
}

}  // namespace ballast::backend
