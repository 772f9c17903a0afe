// SPDX-License-Identifier: MIT
// Takes memory in the order in which a lack of it costs least: the step's, weights, then (by the KV
// cache) keys and values.
#include "engine/runtime/device_side.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/backend/op_access.h"
#include "engine/base/log.h"
#include "engine/runtime/step_plan.h"

namespace ballast::runtime {

using backend::UnitId;

DeviceSide::DeviceSide(const Setup& setup)
    : setup_(setup),
      weights_(*setup.backend, setup.model->weights().views()),
      slots_(setup.model->ops().slots().size()),
      angles_(setup.model->ops().rope_tables().size()),
      rope_(angles_.size()) {}

DeviceSide::~DeviceSide() {
    for (const backend::Chunk& chunk : chunks_) {
        setup_.backend->free_chunk(chunk);
    }
}

Result<std::unique_ptr<DeviceSide>> DeviceSide::create(const Setup& setup) {
    BALLAST_TRY(const std::vector<DeviceId> devices,
                whole_group_devices(*setup.catalog, setup.plan->placement));
    std::unique_ptr<DeviceSide> side(new DeviceSide(setup));
    BALLAST_TRY(side->groups_of_ops_, groups_of_ops(setup.model->ops(), *setup.catalog));
    side->residency_.plan = setup.plan;
    for (const DeviceId device : devices) {
        side->residency_.groups.push_back({.device = device});
    }
    side->n_wanted_ = side->residency_.n_on_device();
    side->check_kernels();
    if (side->residency_.n_on_device() > 0) {
        if (Status status = side->take_step_memory(); !status) {
            side->give_up_all("the memory of a step: " + status.error().message);
        }
    }
    side->upload();
    return side;
}

void DeviceSide::check_kernels() {
    const std::span<const backend::OpRecord> records = setup_.model->ops().records();
    const model::Weights& weights = setup_.model->weights();
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (groups_of_ops_[i] < 0) {
            continue;
        }
        const auto group = static_cast<std::size_t>(groups_of_ops_[i]);
        if (residency_.groups[group].device == DeviceId::kCpu) {
            continue;
        }
        const backend::OpAccess access(records[i].op);
        if (access.units().empty() &&
            !setup_.backend->supports(records[i].op, quant::QuantType::kF32)) {
            keep_on_cpu(group, "the device has no kernels for an op of it");
        }
        for (const UnitId unit : access.units()) {
            const quant::QuantType type = weights.views()[static_cast<std::size_t>(unit)].type;
            if (!setup_.backend->supports(records[i].op, type)) {
                keep_on_cpu(group,
                            fmt::format("tensor {} is {}, for which the device has no kernels",
                                        weights.name(unit),
                                        quant::traits(type).name));
            }
        }
    }
}

Status DeviceSide::take_step_memory() {
    const model::OpsList& ops = setup_.model->ops();
    BALLAST_TRY(const StepPlan plan,
                make_step_plan(ops, *setup_.catalog, residency_.devices(), setup_.model->logits()));
    BALLAST_TRY_STATUS(setup_.backend->reserve(step_limits(*setup_.model, setup_.limits)));
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        if (plan.device_slots[i]) {
            const model::OpsList::Slot& slot = ops.slots()[i];
            slots_[i].width = static_cast<std::size_t>(slot.width);
            BALLAST_TRY(slots_[i].data, take_floats(slot_floats(slot, setup_.limits)));
        }
    }
    for (std::size_t i = 0; i < rope_.size(); ++i) {
        if (plan.device_tables[i]) {
            const std::size_t half = ops.rope_tables()[i].rates.size();
            const std::size_t size = half * static_cast<std::size_t>(setup_.limits.rows);
            BALLAST_TRY(angles_[i].cos, take_floats(size));
            BALLAST_TRY(angles_[i].sin, take_floats(size));
            rope_[i] = {.cos = angles_[i].cos, .sin = angles_[i].sin, .half = half};
        }
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

std::vector<UnitId> DeviceSide::units_of(int group) const {
    std::vector<UnitId> units;
    const std::span<const backend::OpRecord> records = setup_.model->ops().records();
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (groups_of_ops_[i] == group) {
            const backend::OpAccess access(records[i].op);
            units.insert(units.end(), access.units().begin(), access.units().end());
        }
    }
    return units;
}

void DeviceSide::upload() {
    std::vector<std::size_t> groups;
    std::vector<std::vector<UnitId>> units;
    for (std::size_t i = 0; i < residency_.groups.size(); ++i) {
        if (residency_.groups[i].device == DeviceId::kDevice) {
            groups.push_back(i);
            units.push_back(units_of(static_cast<int>(i)));
        }
    }
    const std::vector<Status> results = weights_.upload(units, chunk_bytes(setup_.budget_bytes));
    for (std::size_t i = 0; i < groups.size(); ++i) {
        if (!results[i]) {
            keep_on_cpu(groups[i], results[i].error().message);
        }
    }
}

bool DeviceSide::attends(int layer) const {
    for (std::size_t i = 0; i < residency_.groups.size(); ++i) {
        const scheduler::TensorGroup& group = setup_.catalog->groups[i];
        if (group.kind == scheduler::GroupKind::kAttention && group.layer == layer) {
            return residency_.groups[i].device == DeviceId::kDevice;
        }
    }
    return false;
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
    if (residency_.groups[group].device == DeviceId::kCpu) {
        return;
    }
    residency_.groups[group].device = DeviceId::kCpu;
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
    std::vector<UnitId> needed;
    for (std::size_t i = 0; i < residency_.groups.size(); ++i) {
        GroupResidency& group = residency_.groups[i];
        if (group.device == DeviceId::kCpu) {
            continue;
        }
        for (const UnitId unit : units_of(static_cast<int>(i))) {
            const backend::WeightView& view =
                setup_.model->weights().views()[static_cast<std::size_t>(unit)];
            group.device_weight_bytes += view.n_slices * view.slice_bytes();
            needed.push_back(unit);
        }
        group.device_kv_bytes =
            setup_.catalog->groups[i].kv_bytes_per_token * static_cast<std::uint64_t>(kv_tokens);
    }
    weights_.keep_only(needed);
    if (needed.empty()) {
        for (const backend::Chunk& chunk : chunks_) {
            setup_.backend->free_chunk(chunk);
        }
        chunks_.clear();
        residency_.device_step_bytes = 0;
    }
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
