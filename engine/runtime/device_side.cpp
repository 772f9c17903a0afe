// SPDX-License-Identifier: MIT
// Takes memory in the order in which a lack of it costs least: the step's, weights, then (by the KV
// cache) keys and values.
#include "engine/runtime/device_side.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/backend/op_access.h"
#include "engine/base/log.h"
#include "engine/runtime/weight_slice.h"

namespace ballast::runtime {

namespace {

// Of rows that are sent: one is filled while others cross.
constexpr int kStagingBuffers = 4;

}  // namespace

DeviceSide::DeviceSide(const Setup& setup)
    : setup_(setup),
      weights_(*setup.backend, setup.model->weights().views(), &setup.log->stats()),
      ring_(*setup.backend, *setup.log),
      slots_(setup.model->ops().slots().size() + kAddedSlots),
      angles_(setup.model->ops().rope_tables().size()),
      rope_(angles_.size()) {}

DeviceSide::~DeviceSide() {
    for (const backend::Chunk& chunk : chunks_) {
        setup_.backend->free_chunk(chunk);
    }
    for (const backend::Chunk& chunk : staging_) {
        setup_.backend->free_host(chunk);
    }
}

Result<std::unique_ptr<DeviceSide>> DeviceSide::create(const Setup& setup) {
    std::unique_ptr<DeviceSide> side(new DeviceSide(setup));
    BALLAST_TRY(side->residency_.groups, wanted_residency(*setup.catalog, setup.plan->placement));
    BALLAST_TRY(side->groups_, group_ops(setup.model->ops(), *setup.catalog));
    side->residency_.plan = setup.plan;
    side->n_wanted_ = side->residency_.n_on_device();
    side->check_kernels();
    if (side->residency_.n_on_device() > 0) {
        if (Status status = side->take_step_memory(); !status) {
            side->give_up_all("the memory of a step: " + status.error().message);
        }
    }
    side->upload();
    side->take_ring();
    return side;
}

void DeviceSide::check_kernels() {
    const std::span<const backend::OpRecord> records = setup_.model->ops().records();
    const model::Weights& weights = setup_.model->weights();
    const auto check = [&](std::size_t group, const backend::Op& op) {
        const backend::OpAccess access(op);
        if (access.units().empty() && !setup_.backend->supports(op, quant::QuantType::kF32)) {
            keep_on_cpu(group, "the device has no kernels for an op of it");
        }
        for (const backend::UnitId unit : access.units()) {
            const quant::QuantType type = weights.views()[static_cast<std::size_t>(unit)].type;
            if (!setup_.backend->supports(op, type)) {
                keep_on_cpu(group,
                            fmt::format("tensor {} is {}, for which the device has no kernels",
                                        weights.name(unit),
                                        quant::traits(type).name));
            }
        }
    };
    for (const GroupOps& group : groups_) {
        for (std::size_t i = group.begin; i < group.end && group.group >= 0; ++i) {
            check(static_cast<std::size_t>(group.group), records[i].op);
        }
    }
}

StepProgram DeviceSide::program(StepKind kind) const {
    return make_step_program(*setup_.model, groups_, residency_.divisions(kind), setup_.tile_bytes);
}

Status DeviceSide::take_step_memory() {
    const model::OpsList& ops = setup_.model->ops();
    BALLAST_TRY_STATUS(setup_.backend->reserve(step_limits(*setup_.model, setup_.limits)));
    std::size_t sent_floats = 0;
    for (const StepKind kind : kStepKinds) {
        const StepProgram program = this->program(kind);
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            if (program.device_slots[i] && slots_[i].data == nullptr) {
                const StepSlot& slot = program.slots[i];
                slots_[i].width = static_cast<std::size_t>(slot.width);
                BALLAST_TRY(slots_[i].data, take_floats(slot_floats(slot, setup_.limits)));
            }
        }
        for (std::size_t i = 0; i < rope_.size(); ++i) {
            if (program.device_tables[i] && rope_[i].cos == nullptr) {
                const std::size_t half = ops.rope_tables()[i].rates.size();
                const std::size_t size = half * static_cast<std::size_t>(setup_.limits.rows);
                BALLAST_TRY(angles_[i].cos, take_floats(size));
                BALLAST_TRY(angles_[i].sin, take_floats(size));
                rope_[i] = {.cos = angles_[i].cos, .sin = angles_[i].sin, .half = half};
            }
        }
        for (const StepAction& action : program.actions) {
            if (action.kind == StepAction::Kind::kSend) {
                const StepSlot& slot = program.slots[static_cast<std::size_t>(action.from)];
                sent_floats = std::max(sent_floats, slot_floats(slot, setup_.limits));
            }
        }
    }
    for (int i = 0; i < kStagingBuffers && sent_floats > 0; ++i) {
        BALLAST_TRY(const backend::Chunk chunk,
                    setup_.backend->allocate_host(sent_floats * sizeof(float)));
        staging_.push_back(chunk);
    }
    return {};
}

Result<float*> DeviceSide::take_floats(std::size_t count) {
    BALLAST_TRY(const backend::Chunk chunk, setup_.backend->allocate_chunk(count * sizeof(float)));
    chunks_.push_back(chunk);
    residency_.device_step_bytes += chunk.size_bytes;
    // A chunk is aligned to a page, which suits float.
    return static_cast<float*>(static_cast<void*>(chunk.data));
}

std::vector<WeightSlice> DeviceSide::resident_slices(const GroupOps& group) const {
    if (group.group < 0) {
        return {};
    }
    const GroupResidency& facts = residency_.groups[static_cast<std::size_t>(group.group)];
    if (!facts.on_device()) {
        return {};
    }
    std::vector<WeightSlice> slices = common_slices(*setup_.model, group);
    if (facts.resident > 0) {
        const auto more = share_slices(*setup_.model, group, {0, facts.resident});
        slices.insert(slices.end(), more.begin(), more.end());
    }
    return slices;
}

void DeviceSide::upload() {
    std::vector<std::size_t> groups;
    std::vector<std::vector<WeightSlice>> slices;
    for (const GroupOps& group : groups_) {
        std::vector<WeightSlice> next = resident_slices(group);
        if (!next.empty()) {
            groups.push_back(static_cast<std::size_t>(group.group));
            slices.push_back(std::move(next));
        }
    }
    const std::vector<Status> results = weights_.upload(slices, chunk_bytes(setup_.budget_bytes));
    for (std::size_t i = 0; i < groups.size(); ++i) {
        if (!results[i]) {
            keep_on_cpu(groups[i], results[i].error().message);
        }
    }
}

void DeviceSide::take_ring() {
    const std::array<StepProgram, 2> programs = {program(StepKind::kDecode),
                                                 program(StepKind::kPrefill)};
    const std::array<const StepProgram*, 2> both = {&programs[0], &programs[1]};
    Status status = ring_.reserve(both);
    if (status) {
        return;
    }
    for (std::size_t i = 0; i < residency_.groups.size(); ++i) {
        const GroupResidency& facts = residency_.groups[i];
        if (facts.streamed + facts.prefill_streamed > 0) {
            keep_on_cpu(i, "the ring that it would stream through: " + status.error().message);
        }
    }
    ring_.release();
}

int DeviceSide::attending_heads(int layer) const {
    for (std::size_t i = 0; i < residency_.groups.size(); ++i) {
        const scheduler::TensorGroup& group = setup_.catalog->groups[i];
        if (group.kind == scheduler::GroupKind::kAttention && group.layer == layer) {
            const int n = residency_.groups[i].division(StepKind::kDecode).on_device();
            return setup_.model->config().n_kv_heads / group.parts * n;
        }
    }
    return 0;
}

void DeviceSide::give_up_attention(int layer) {
    for (std::size_t i = 0; i < residency_.groups.size(); ++i) {
        const scheduler::TensorGroup& group = setup_.catalog->groups[i];
        if (group.kind == scheduler::GroupKind::kAttention && group.layer == layer) {
            keep_on_cpu(i, "the device has no room for its keys and values");
        }
    }
}

void DeviceSide::keep_on_cpu(std::size_t group, const std::string& reason) {
    if (!residency_.groups[group].on_device()) {
        return;
    }
    residency_.groups[group] = {};
    log_debug("{} stays on the CPU: {}", group_name(setup_.catalog->groups[group]), reason);
    if (first_reason_.empty()) {
        first_reason_ = fmt::format("{}: {}", group_name(setup_.catalog->groups[group]), reason);
    }
}

void DeviceSide::give_up_all(const std::string& reason) {
    for (std::size_t i = 0; i < residency_.groups.size(); ++i) {
        keep_on_cpu(i, reason);
    }
}

void DeviceSide::settle(std::int64_t kv_tokens) {
    residency_.kv_tokens = kv_tokens;
    std::vector<WeightSlice> needed;
    for (const GroupOps& group : groups_) {
        const std::vector<WeightSlice> slices = resident_slices(group);
        if (slices.empty()) {
            continue;
        }
        const auto index = static_cast<std::size_t>(group.group);
        const scheduler::TensorGroup& of = setup_.catalog->groups[index];
        GroupResidency& facts = residency_.groups[index];
        for (const WeightSlice& slice : slices) {
            facts.device_weight_bytes += packed_bytes(
                setup_.model->weights().views()[static_cast<std::size_t>(slice.unit)], slice);
        }
        needed.insert(needed.end(), slices.begin(), slices.end());
        const auto n = static_cast<std::uint64_t>(facts.division(StepKind::kDecode).on_device());
        facts.device_kv_bytes = of.kv_bytes_per_token / static_cast<std::uint64_t>(of.parts) * n *
                                static_cast<std::uint64_t>(kv_tokens);
    }
    weights_.keep_only(needed);
    if (needed.empty()) {
        for (const backend::Chunk& chunk : chunks_) {
            setup_.backend->free_chunk(chunk);
        }
        chunks_.clear();
        residency_.device_step_bytes = 0;
        ring_.release();
    }
    residency_.ring_bytes = ring_.total_bytes();
    note_degraded();
}

void DeviceSide::note_degraded() {
    const int n_missing = n_wanted_ - residency_.n_on_device();
    if (n_missing > 0) {
        residency_.degraded = fmt::format(
            "{} of the {} groups that the plan puts on {} stay on the CPU; the first "
            "is {}",
            n_missing,
            n_wanted_,
            setup_.backend->name(),
            first_reason_);
    }
}

}  // namespace ballast::runtime
