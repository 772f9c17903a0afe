// SPDX-License-Identifier: MIT
// Memory for the slots and angles, and the views of it by the numbers that ops use.
#include "engine/runtime/step_binding.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ballast::runtime {

namespace {

void bind_slots(BoundStep& step, std::span<const backend::SlotView> memory, std::size_t side) {
    for (const StepSlot& slot : step.program.slots) {
        backend::SlotView view = memory[static_cast<std::size_t>(slot.memory)];
        view.data += view.data == nullptr ? 0 : slot.first_column;
        step.slots[side].push_back(view);
    }
}

/// Groups of experts that the device alone computes.
std::vector<int> groups_without_cpu(const StepProgram& program) {
    std::vector<int> groups;
    const auto& on_cpu = program.sides[0].expert_shares;
    for (const ExpertShare& share : program.sides[1].expert_shares) {
        const bool known = std::find(groups.begin(), groups.end(), share.group) != groups.end();
        const bool shared = std::any_of(on_cpu.begin(), on_cpu.end(), [&](const ExpertShare& cpu) {
            return cpu.group == share.group;
        });
        if (!known && !shared) {
            groups.push_back(share.group);
        }
    }
    return groups;
}

}  // namespace

StepBinding::~StepBinding() {
    for (const backend::Chunk& chunk : chunks_) {
        parts_.cpu.free_chunk(chunk);
    }
}

Status StepBinding::bind(std::array<StepProgram, kStepKinds.size()> programs,
                         const ExecutorLimits& limits) {
    BALLAST_TRY_STATUS(allocate(programs[0], limits));
    bind_again(std::move(programs));
    return {};
}

void StepBinding::bind_again(std::array<StepProgram, kStepKinds.size()> programs) {
    for (std::size_t i = 0; i < programs.size(); ++i) {
        BoundStep& step = steps_[i];
        step = {.program = std::move(programs[i])};
        step.experts =
            ExpertViews(step.program.sides[0].expert_shares, step.program.sides[1].expert_shares);
        bind_cpu(step);
        if (parts_.device != nullptr) {
            bind_device(step);
            step.filled = groups_without_cpu(step.program);
        }
    }
}

Status StepBinding::allocate(const StepProgram& program, const ExecutorLimits& limits) {
    const model::OpsList& ops = parts_.model.ops();
    BALLAST_TRY_STATUS(parts_.cpu.reserve(step_limits(parts_.model, limits)));
    // Without a device nobody adds up two sides' sums.
    const std::size_t n_slots = ops.slots().size() + (parts_.device != nullptr ? kAddedSlots : 0);
    for (std::size_t i = 0; i < n_slots; ++i) {
        const StepSlot& slot = program.slots[i];
        BALLAST_TRY(backend::Chunk chunk,
                    parts_.cpu.allocate_chunk(slot_floats(slot, limits) * sizeof(float)));
        chunks_.push_back(chunk);
        memory_.push_back(
            {.data = floats_at(chunk), .width = static_cast<std::size_t>(slot.width)});
    }
    memory_.resize(program.device_slots.size());
    for (const model::RopeTable& table : ops.rope_tables()) {
        const std::size_t size = static_cast<std::size_t>(limits.rows) * table.rates.size();
        RopeAngles& memory = rope_.emplace_back();
        memory.rates = table.rates;
        memory.cos = AlignedBuffer<float>(size);
        memory.sin = AlignedBuffer<float>(size);
        rope_views_.push_back(
            {.cos = memory.cos.data(), .sin = memory.sin.data(), .half = table.rates.size()});
    }
    return {};
}

void StepBinding::bind_cpu(BoundStep& step) {
    const std::span<const backend::WeightView> tensors = parts_.model.weights().views();
    for (const SideUnit& unit : step.program.sides[0].units()) {
        step.weights[0].push_back(
            view_in_place(tensors[static_cast<std::size_t>(unit.slice.unit)], unit.slice));
    }
    bind_slots(step, memory_, 0);
    step.contexts[0] = {.weights = step.weights[0],
                        .slots = step.slots[0],
                        .kv = parts_.cache.layers(),
                        .rope = rope_views_,
                        .experts = step.experts.of(DeviceId::kCpu)};
}

void StepBinding::bind_device(BoundStep& step) {
    for (const SideUnit& unit : step.program.sides[1].units()) {
        step.weights[1].push_back(parts_.device->weights().view(unit.slice));
    }
    bind_tiles(step, parts_.device->ring(), parts_.model.weights().views());
    bind_slots(step, parts_.device->slots(), 1);
    step.contexts[1] = {.weights = step.weights[1],
                        .slots = step.slots[1],
                        .kv = parts_.cache.layers(),
                        .rope = parts_.device->rope(),
                        .experts = step.experts.of(DeviceId::kDevice)};
}

void bind_tiles(BoundStep& step,
                const WeightRing& ring,
                std::span<const backend::WeightView> tensors) {
    const auto& units = step.program.sides[1].units();
    for (std::size_t i = 0; i < step.program.tiles.size(); ++i) {
        const StepTile& tile = step.program.tiles[i];
        for (std::size_t n = 0; n < tile.units.size(); ++n) {
            const auto unit = static_cast<std::size_t>(tile.units[n]);
            const WeightSlice& slice = units[unit].slice;
            step.weights[1][unit] = packed_view(tensors[static_cast<std::size_t>(slice.unit)],
                                                slice,
                                                ring.tile(i) + tile.offsets[n]);
        }
    }
}

void StepBinding::follow(StepKind kind, const ExpertPlaces& experts) {
    BoundStep& step = this->step(kind);
    if (step.experts_version == experts.version()) {
        return;
    }
    step.experts_version = experts.version();
    for (int group = 0; group < experts.n_groups(); ++group) {
        if (const auto order = experts.order(group); !order.empty()) {
            step.experts.set(group, order);
        }
    }
}

void StepBinding::fill_rope(const backend::StepInput& input) {
    for (RopeAngles& memory : rope_) {
        fill_angles(memory.rates, input, memory.cos.data(), memory.sin.data());
    }
}

void fill_angles(std::span<const double> rates,
                 const backend::StepInput& input,
                 float* cos,
                 float* sin) {
    const std::size_t half = rates.size();
    for (const backend::SequenceRows& sequence : input.sequences) {
        for (int i = 0; i < sequence.n_rows; ++i) {
            const auto position = static_cast<double>(sequence.first_position + i);
            const std::size_t begin = static_cast<std::size_t>(sequence.first_row + i) * half;
            for (std::size_t pair = 0; pair < half; ++pair) {
                const double angle = position * rates[pair];
                cos[begin + pair] = static_cast<float>(std::cos(angle));
                sin[begin + pair] = static_cast<float>(std::sin(angle));
            }
        }
    }
}

}  // namespace ballast::runtime
