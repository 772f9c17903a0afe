// SPDX-License-Identifier: MIT
// Memory for all rows of what is carried, and views that go from one micro-batch to the next.
#include "engine/runtime/super_binding.h"

#include <algorithm>

#include "engine/base/check.h"

namespace ballast::runtime {

Result<std::unique_ptr<SuperBinding>> SuperBinding::create(const Parts& parts, int rows) {
    const BoundStep& prompts = parts.steps.step(StepKind::kPrefill);
    const BoundStep& decode = parts.steps.step(StepKind::kDecode);
    if (prompts.program.tiles.empty() || rows <= 0) {
        return std::unique_ptr<SuperBinding>();
    }
    std::unique_ptr<SuperBinding> binding(new SuperBinding(parts, rows));
    // Where generated tokens stream as well, each program has half of the places.
    const bool both = !decode.program.tiles.empty();
    const std::size_t n_places = both ? kTiles / 2 : kTiles;
    WeightRing& all = parts.device.ring();
    binding->ring_ = std::make_unique<WeightRing>(all, PlaceRange{.n = n_places});
    binding->rebind(prompts, *binding->ring_, binding->step_);
    if (both) {
        binding->between_ring_ = std::make_unique<WeightRing>(
            all, PlaceRange{.first = n_places, .n = kTiles - n_places});
        binding->rebind(decode, *binding->between_ring_, binding->between_);
    }
    // One place is left for what crosses while all rows read the others.
    binding->stages_ = super_stages(parts.model, binding->step_.program, n_places - 1);
    BALLAST_TRY_STATUS(binding->allocate());
    return binding;
}

SuperBinding::~SuperBinding() {
    for (const backend::Chunk& chunk : chunks_) {
        parts_.cpu.free_chunk(chunk);
    }
    for (const backend::Chunk& chunk : host_chunks_) {
        parts_.device.backend().free_host(chunk);
    }
}

void SuperBinding::rebind(const BoundStep& step, const WeightRing& ring, BoundStep& to) const {
    to.program = step.program;
    to.weights = step.weights;
    to.slots = step.slots;
    bind_tiles(to, ring, parts_.model.weights().views());
    for (std::size_t side = 0; side < kDevices; ++side) {
        to.contexts[side] = step.contexts[side];
        to.contexts[side].weights = to.weights[side];
        to.contexts[side].slots = to.slots[side];
    }
}

Status SuperBinding::allocate() {
    const std::size_t n_memories = step_.program.device_slots.size();
    on_cpu_.resize(n_memories);
    of_device_.resize(n_memories);
    for (std::size_t i = 0; i < n_memories; ++i) {
        const std::size_t n_bytes = static_cast<std::size_t>(rows_) *
                                    static_cast<std::size_t>(step_.program.slots[i].width) *
                                    sizeof(float);
        if (stages_.carried[0][i]) {
            BALLAST_TRY(const backend::Chunk chunk, parts_.cpu.allocate_chunk(n_bytes));
            chunks_.push_back(chunk);
            on_cpu_[i] = floats_at(chunk);
        }
        if (stages_.carried[1][i]) {
            BALLAST_TRY(const backend::Chunk chunk, parts_.device.backend().allocate_host(n_bytes));
            host_chunks_.push_back(chunk);
            of_device_[i] = floats_at(chunk);
        }
    }
    for (const model::RopeTable& table : parts_.model.ops().rope_tables()) {
        const std::size_t size = static_cast<std::size_t>(rows_) * table.rates.size();
        RopeAngles& memory = rope_.emplace_back();
        memory.rates = table.rates;
        memory.cos = AlignedBuffer<float>(size);
        memory.sin = AlignedBuffer<float>(size);
        rope_views_.push_back({.half = table.rates.size()});
    }
    step_.contexts[0].rope = rope_views_;
    return {};
}

BoundStep& SuperBinding::at(const backend::StepInput& input, int first_row) {
    BALLAST_CHECK(first_row >= 0 && first_row + input.n_rows() <= rows_);
    const auto row = static_cast<std::size_t>(first_row);
    for (std::size_t i = 0; i < step_.program.slots.size(); ++i) {
        const StepSlot& slot = step_.program.slots[i];
        float* const carried = on_cpu_[static_cast<std::size_t>(slot.memory)];
        if (carried != nullptr) {
            backend::SlotView& view = step_.slots[0][i];
            view.data = carried + row * view.width + slot.first_column;
        }
    }
    for (std::size_t i = 0; i < rope_.size(); ++i) {
        const std::size_t begin = row * rope_views_[i].half;
        rope_views_[i].cos = rope_[i].cos.data() + begin;
        rope_views_[i].sin = rope_[i].sin.data() + begin;
    }
    for (std::size_t side = 0; side < kDevices; ++side) {
        step_.contexts[side].input = input;
        // Experts are where they are in a step.
        step_.contexts[side].experts = parts_.steps.step(StepKind::kPrefill).contexts[side].experts;
    }
    return step_;
}

void SuperBinding::fill_rope(const backend::StepInput& input, int first_row) {
    for (RopeAngles& memory : rope_) {
        const std::size_t begin = static_cast<std::size_t>(first_row) * memory.rates.size();
        fill_angles(memory.rates, input, memory.cos.data() + begin, memory.sin.data() + begin);
    }
}

float* SuperBinding::carried_on_host(backend::SlotId memory, int first_row) const {
    const auto index = static_cast<std::size_t>(memory);
    return of_device_[index] + static_cast<std::size_t>(first_row) *
                                   static_cast<std::size_t>(step_.program.slots[index].width);
}

}  // namespace ballast::runtime
