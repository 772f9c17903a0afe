// SPDX-License-Identifier: MIT
// All that a second device holds of a running model: copies of weights, the ring that others cross
// into, a step's activations and angles, and with them the facts of what is where. What the device
// cannot take stays on the CPU.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/result.h"
#include "engine/model/model.h"
#include "engine/runtime/device_weights.h"
#include "engine/runtime/residency.h"
#include "engine/runtime/step_memory.h"
#include "engine/runtime/step_program.h"
#include "engine/runtime/weight_ring.h"

namespace ballast::runtime {

/// Made before the KV cache, of which the device keeps the heads that attend here; then settled.
/// The model, the catalog, the backend and the log outlive it.
class DeviceSide {
  public:
    struct Setup {
        const model::Model* model = nullptr;
        const scheduler::TensorCatalog* catalog = nullptr;
        backend::Backend* backend = nullptr;
        LaneLog* log = nullptr;
        std::shared_ptr<const scheduler::Plan> plan = nullptr;
        std::uint64_t budget_bytes = 0;
        ExecutorLimits limits = {};
        std::size_t tile_bytes = scheduler::kTileBytesMax;
    };
    /// Cosines and sines of one rope table.
    struct Angles {
        float* cos = nullptr;
        float* sin = nullptr;
    };
    /// kUnsupported if the plan divides a group as the executor cannot. What the device refuses is
    /// no error: the groups stay on the CPU and residency().degraded says why.
    static Result<std::unique_ptr<DeviceSide>> create(const Setup& setup);
    ~DeviceSide();
    DeviceSide(const DeviceSide&) = delete;
    DeviceSide& operator=(const DeviceSide&) = delete;

    /// How many of the layer's KV heads, from the first on, belong here.
    int attending_heads(int layer) const;
    /// The layer's keys and values went to the CPU after all, and so does its attention.
    void give_up_attention(int layer);
    /// Nothing changes any more: gives back what no group needs, and counts the rest.
    void settle(std::int64_t kv_tokens);

    /// A step as it is divided now.
    StepProgram program(StepKind kind) const;
    /// Of its chunks: weights with what lies between them, the ring, and the step's memory.
    std::uint64_t held_bytes() const {
        return weights_.total_bytes() + ring_.total_bytes() + residency_.device_step_bytes;
    }
    backend::Backend& backend() const { return *setup_.backend; }
    const Residency& residency() const { return residency_; }
    const DeviceWeights& weights() const { return weights_; }
    WeightRing& ring() { return ring_; }
    /// By memory of a program's slots and by rope table; null where no op here needs it.
    std::span<const backend::SlotView> slots() const { return slots_; }
    std::span<const backend::RopeView> rope() const { return rope_; }
    /// The same memory, to be filled.
    std::span<const Angles> angles() const { return angles_; }
    /// Host memory that rows are sent from, one buffer after the other.
    std::span<const backend::Chunk> staging() const { return staging_; }

  private:
    explicit DeviceSide(const Setup& setup);
    /// Keeps groups on the CPU whose ops the device has no kernels for.
    void check_kernels();
    Status take_step_memory();
    void upload();
    void take_ring();
    void keep_on_cpu(std::size_t group, const std::string& reason);
    void give_up_all(const std::string& reason);
    Result<float*> take_floats(std::size_t count);
    /// Of a group, what stays here.
    std::vector<WeightSlice> resident_slices(const GroupOps& group) const;
    void note_degraded();

    Setup setup_;
    std::vector<GroupOps> groups_;
    Residency residency_;
    DeviceWeights weights_;
    WeightRing ring_;
    std::vector<backend::Chunk> chunks_;   // of slots and angles
    std::vector<backend::Chunk> staging_;  // the host's
    std::vector<backend::SlotView> slots_;
    std::vector<Angles> angles_;
    std::vector<backend::RopeView> rope_;
    int n_wanted_ = 0;
    std::string first_reason_;
};

}  // namespace ballast::runtime
