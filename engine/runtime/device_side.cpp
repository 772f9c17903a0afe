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
      supported_(setup.catalog->groups.size(), true),
      pieces_(setup.catalog->groups.size()),
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
    side->experts_ = std::make_unique<ExpertPlaces>(ExpertPlaces::Setup{.model = setup.model,
                                                                        .backend = setup.backend,
                                                                        .weights = &side->weights_,
                                                                        .groups = side->groups_,
                                                                        .rule = setup.slot_rule,
                                                                        .use = setup.expert_use,
                                                                        .log = setup.log});
    side->ring_.follow(*side->experts_);
    side->ops_of_.resize(setup.catalog->groups.size());
    for (std::size_t i = 0; i < side->groups_.size(); ++i) {
        if (side->groups_[i].group >= 0) {
            side->ops_of_[static_cast<std::size_t>(side->groups_[i].group)] = i;
        }
    }
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
            supported_[group] = false;
            keep_on_cpu(group, "the device has no kernels for an op of it");
        }
        for (const backend::UnitId unit : access.units()) {
            const quant::QuantType type = weights.views()[static_cast<std::size_t>(unit)].type;
            if (!setup_.backend->supports(op, type)) {
                supported_[group] = false;
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

Status DeviceSide::take_step_memory() {
    const model::OpsList& ops = setup_.model->ops();
    BALLAST_TRY_STATUS(setup_.backend->reserve(step_limits(*setup_.model, setup_.limits)));
    std::size_t sent_floats = 0;
    for (const StepProgram& program : compiled()) {
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
    const std::size_t staged_floats =
        staging_.empty() ? 0 : staging_.front().size_bytes / sizeof(float);
    if (sent_floats > staged_floats) {
        for (const backend::Chunk& chunk : staging_) {
            setup_.backend->free_host(chunk);
        }
        staging_.clear();
    }
    for (int i = 0; i < kStagingBuffers && sent_floats > staged_floats; ++i) {
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
    return floats_at(chunk);
}

std::vector<WeightSlice> DeviceSide::slices_of(const Piece& piece) const {
    const GroupOps& group = groups_[ops_of_[piece.group]];
    std::vector<WeightSlice> slices = common_slices(*setup_.model, group);
    if (piece.parts.n > 0) {
        const auto more = share_slices(*setup_.model, group, piece.parts);
        slices.insert(slices.end(), more.begin(), more.end());
    }
    return slices;
}

void DeviceSide::upload() {
    std::vector<std::size_t> order = setup_.eviction_order;
    if (order.empty()) {
        for (std::size_t i = 0; i < pieces_.size(); ++i) {
            order.push_back(pieces_.size() - 1 - i);
        }
    }
    std::vector<std::size_t> groups;
    std::vector<std::vector<WeightSlice>> slices;
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
        const GroupResidency& facts = residency_.groups[*at];
        if (facts.on_device()) {
            groups.push_back(*at);
            slices.push_back(slices_of({*at, {0, facts.resident}}));
        }
    }
    const std::vector<Status> results = weights_.upload(slices, chunk_bytes(setup_.budget_bytes));
    for (std::size_t i = 0; i < groups.size(); ++i) {
        if (results[i]) {
            pieces_[groups[i]] = {{0, residency_.groups[groups[i]].resident}};
        } else {
            keep_on_cpu(groups[i], results[i].error().message);
        }
    }
}

void DeviceSide::take_ring() {
    const auto& programs = compiled();
    const std::array<const StepProgram*, 2> both = {&programs[0], &programs[1]};
    Status status = ring_.reserve(both, shares_ring());
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
    programs_.reset();
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
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        if (!residency_.groups[i].on_device()) {
            pieces_[i].clear();
        }
    }
    settle_parts(kv_tokens);
}

void DeviceSide::note_degraded() {
    const int n_missing = n_wanted_ - residency_.n_on_device();
    residency_.degraded.clear();
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
