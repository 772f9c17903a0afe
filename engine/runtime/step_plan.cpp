// SPDX-License-Identifier: MIT
// Liveness across the border: a slot is copied to a device when a piece there reads rows that were
// last written on the other one, and never otherwise. Between groups that is mostly the residual.
#include "engine/runtime/step_plan.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/backend/op_access.h"

namespace ballast::runtime {

namespace {

using backend::OpGroup;
using backend::SlotId;
using scheduler::GroupKind;
using scheduler::TensorGroup;

bool belongs(const TensorGroup& group, const backend::OpRecord& record) {
    switch (record.group) {
        case OpGroup::kEmbedding:
            return false;
        case OpGroup::kAttention:
            return group.kind == GroupKind::kAttention && group.layer == record.layer;
        case OpGroup::kFeedForward:
            return (group.kind == GroupKind::kFeedForward || group.kind == GroupKind::kExperts) &&
                   group.layer == record.layer;
        case OpGroup::kHead:
            return group.kind == GroupKind::kHead;
    }
    return false;
}

/// Walks the pieces in order and knows on which devices each slot's latest rows are.
class Liveness {
  public:
    explicit Liveness(std::size_t n_slots) : on_(n_slots, {true, true}) {}

    void enter(StepPiece& piece, std::span<const backend::OpRecord> ops) {
        const std::size_t here = index_of(piece.device);
        std::vector<SlotId> written;
        for (const backend::OpRecord& record : ops) {
            const backend::OpAccess access(record.op);
            for (const SlotId slot : access.reads()) {
                const bool made_here =
                    std::find(written.begin(), written.end(), slot) != written.end();
                auto& places = on_[static_cast<std::size_t>(slot)];
                if (!made_here && !places[here]) {
                    piece.arrivals.push_back(slot);
                    places[here] = true;
                }
            }
            for (const SlotId slot : access.writes()) {
                written.push_back(slot);
                auto& places = on_[static_cast<std::size_t>(slot)];
                places = {false, false};
                places[here] = true;
            }
        }
    }
    bool on(SlotId slot, DeviceId device) const {
        return on_[static_cast<std::size_t>(slot)][index_of(device)];
    }

  private:
    static std::size_t index_of(DeviceId device) { return static_cast<std::size_t>(device); }
    std::vector<std::array<bool, kDevices>> on_;  // by slot; nothing is written at first
};

void note_device_use(StepPlan& plan, std::span<const backend::OpRecord> ops) {
    for (const backend::OpRecord& record : ops) {
        const backend::OpAccess access(record.op);
        for (const auto slots : {access.reads(), access.writes()}) {
            for (const SlotId slot : slots) {
                plan.device_slots[static_cast<std::size_t>(slot)] = true;
            }
        }
        if (const auto* rope = std::get_if<backend::Rope>(&record.op)) {
            plan.device_tables[static_cast<std::size_t>(rope->table)] = true;
        }
    }
}

}  // namespace

std::span<const StepPiece> StepPlan::segments(int first, int last) const {
    const std::size_t begin = segment_begin[static_cast<std::size_t>(first)];
    return std::span(pieces).subspan(begin, segment_begin[static_cast<std::size_t>(last)] - begin);
}

Result<std::vector<int>> groups_of_ops(const model::OpsList& ops,
                                       const scheduler::TensorCatalog& catalog) {
    std::vector<int> groups;
    groups.reserve(ops.records().size());
    int at = 0;  // ops and groups are in the same order
    const int n_groups = static_cast<int>(catalog.groups.size());
    for (const backend::OpRecord& record : ops.records()) {
        if (record.group == OpGroup::kEmbedding) {
            groups.push_back(-1);
            continue;
        }
        while (at < n_groups && !belongs(catalog.groups[static_cast<std::size_t>(at)], record)) {
            ++at;
        }
        if (at == n_groups) {
            return fail(
                ErrorCode::kInternal,
                fmt::format("an op of layer {} is of no group that can be placed", record.layer));
        }
        groups.push_back(at);
    }
    return groups;
}

Result<StepPlan> make_step_plan(const model::OpsList& ops,
                                const scheduler::TensorCatalog& catalog,
                                std::span<const DeviceId> devices,
                                SlotId logits) {
    BALLAST_TRY(const std::vector<int> groups, groups_of_ops(ops, catalog));
    StepPlan plan;
    plan.device_slots.resize(ops.slots().size());
    plan.device_tables.resize(ops.rope_tables().size());
    Liveness liveness(ops.slots().size());
    std::size_t begin = 0;
    for (int segment = 0; segment < ops.n_segments(); ++segment) {
        plan.segment_begin.push_back(plan.pieces.size());
        const std::size_t segment_end = begin + ops.segments(segment, segment + 1).size();
        while (begin < segment_end) {
            std::size_t end = begin + 1;
            while (end < segment_end && groups[end] == groups[begin]) {
                ++end;
            }
            const int group = groups[begin];
            StepPiece piece{.group = group, .begin = begin, .end = end};
            piece.rows = ops.records()[begin].rows;
            if (group >= 0) {
                piece.device = devices[static_cast<std::size_t>(group)];
            }
            const auto records = ops.records().subspan(begin, end - begin);
            liveness.enter(piece, records);
            if (piece.device == DeviceId::kDevice) {
                note_device_use(plan, records);
            }
            plan.pieces.push_back(std::move(piece));
            begin = end;
        }
    }
    plan.segment_begin.push_back(plan.pieces.size());
    plan.logits_on_device = !liveness.on(logits, DeviceId::kCpu);
    return plan;
}

}  // namespace ballast::runtime
