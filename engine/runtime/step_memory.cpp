// SPDX-License-Identifier: MIT
// Sums over the slots and rope tables that ops touch.
#include "engine/runtime/step_memory.h"

#include <algorithm>
#include <vector>

#include "engine/backend/op_access.h"
#include "engine/runtime/step_program.h"

namespace ballast::runtime {

backend::StepLimits step_limits(const model::Model& model, const ExecutorLimits& limits) {
    const model::ModelConfig& config = model.config();
    std::size_t longest_row = 0;
    for (const backend::WeightView& view : model.weights().views()) {
        longest_row = std::max(longest_row, view.k);
    }
    return {.rows = limits.rows,
            .outputs = limits.outputs,
            .heads = config.n_heads,
            .blocks = (limits.context + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens,
            .k = longest_row,
            .experts = config.n_experts,
            .experts_used = config.n_experts_used,
            .width = static_cast<std::size_t>(config.width),
            .expert_ffn_width = static_cast<std::size_t>(config.ffn_width)};
}

StepBytes device_step_bytes(const model::Model& model, const ExecutorLimits& limits) {
    const model::OpsList& ops = model.ops();
    StepBytes bytes;
    const model::OpsList::Slot residual{.width = model.config().width};
    bytes.sums = kAddedSlots * slot_floats(residual, limits) * sizeof(float);
    std::vector<bool> counted(ops.slots().size());
    const auto count = [&](const backend::OpRecord& record) {
        const bool head = record.group == backend::OpGroup::kHead;
        const backend::OpAccess access(record.op);
        for (const auto slots : {access.reads(), access.writes()}) {
            for (const backend::SlotId slot : slots) {
                const auto index = static_cast<std::size_t>(slot);
                if (!counted[index]) {
                    counted[index] = true;
                    (head ? bytes.head : bytes.layers) +=
                        slot_floats(ops.slots()[index], limits) * sizeof(float);
                }
            }
        }
    };
    // The head's ops come last, so that what it shares with the layers counts as theirs.
    for (const backend::OpRecord& record : ops.records()) {
        if (record.group != backend::OpGroup::kEmbedding) {
            count(record);
        }
    }
    for (const model::RopeTable& table : ops.rope_tables()) {
        bytes.layers +=
            2 * sizeof(float) * table.rates.size() * static_cast<std::uint64_t>(limits.rows);
    }
    return bytes;
}

}  // namespace ballast::runtime
