// SPDX-License-Identifier: MIT
// Step programs bound to memory: where the weights, slots, experts and angles lie that their ops
// name by number. Owns a step's memory on the CPU; the device's belongs to DeviceSide.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/result.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/model.h"
#include "engine/runtime/device_side.h"
#include "engine/runtime/expert_views.h"
#include "engine/runtime/step_memory.h"
#include "engine/runtime/step_program.h"

namespace ballast::runtime {

/// One kind of step, bound to memory.
struct BoundStep {
    StepProgram program = {};
    std::array<std::vector<backend::WeightView>, kDevices> weights = {};
    std::array<std::vector<backend::SlotView>, kDevices> slots = {};
    ExpertViews experts = {};
    std::uint64_t experts_version = 0;  // of the places that the views follow; 0: none
    /// Groups of experts of which the CPU computes none, so that no slot may be empty.
    std::vector<int> filled = {};
    std::array<backend::StepContext, kDevices> contexts = {};
};

/// Cosines and sines of one rope table.
struct RopeAngles {
    std::span<const double> rates;
    AlignedBuffer<float> cos;  // [rows][rates]
    AlignedBuffer<float> sin;
};

/// What the step's tiles have is where they lie in this ring.
void bind_tiles(BoundStep& step,
                const WeightRing& ring,
                std::span<const backend::WeightView> tensors);

/// Cosines and sines of a rope table for the input's rows: [rows][rates].
void fill_angles(std::span<const double> rates,
                 const backend::StepInput& input,
                 float* cos,
                 float* sin);

/// Engine thread. What it is made of outlives it.
class StepBinding {
  public:
    struct Parts {
        const model::Model& model;
        backend::Backend& cpu;
        DeviceSide* device;  // settled; null: there is none
        cache::KvCache& cache;
    };
    explicit StepBinding(const Parts& parts) : parts_(parts) {}
    ~StepBinding();
    StepBinding(const StepBinding&) = delete;
    StepBinding& operator=(const StepBinding&) = delete;

    /// Takes memory for steps within the limits and binds the programs to it, one for each kind of
    /// step. Once. kOutOfMemory.
    Status bind(std::array<StepProgram, kStepKinds.size()> programs, const ExecutorLimits& limits);

    /// Binds other programs to the same memory.
    void bind_again(std::array<StepProgram, kStepKinds.size()> programs);

    BoundStep& step(StepKind kind) { return steps_[static_cast<std::size_t>(kind)]; }
    const BoundStep& step(StepKind kind) const { return steps_[static_cast<std::size_t>(kind)]; }
    /// On the CPU, by memory of a program's slots.
    const backend::SlotView& memory(backend::SlotId slot) const {
        return memory_[static_cast<std::size_t>(slot)];
    }
    /// Experts are where they are now, for steps of this kind; between two steps.
    void follow(StepKind kind, const ExpertPlaces& experts);
    /// Cosines and sines for the input's rows, on the CPU.
    void fill_rope(const backend::StepInput& input);

  private:
    Status allocate(const StepProgram& program, const ExecutorLimits& limits);
    void bind_cpu(BoundStep& step);
    void bind_device(BoundStep& step);

    Parts parts_;
    std::array<BoundStep, kStepKinds.size()> steps_;
    std::vector<backend::Chunk> chunks_;     // one a slot
    std::vector<backend::SlotView> memory_;  // by memory of a program's slots
    std::vector<RopeAngles> rope_;
    std::vector<backend::RopeView> rope_views_;
};

}  // namespace ballast::runtime
