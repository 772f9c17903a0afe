// SPDX-License-Identifier: MIT
// All that a second device holds of a running model: copies of weights, a step's activations and
// angles, and with them the facts of what is where. What the device cannot take stays on the CPU.
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

namespace ballast::runtime {

/// Made before the KV cache, of which the device keeps the layers that attend here; then settled.
/// The model, the catalog and the backend outlive it.
class DeviceSide {
  public:
    struct Setup {
        const model::Model* model = nullptr;
        const scheduler::TensorCatalog* catalog = nullptr;
        backend::Backend* backend = nullptr;
        std::shared_ptr<const scheduler::Plan> plan = nullptr;
        std::uint64_t budget_bytes = 0;
        ExecutorLimits limits = {};
    };
    /// Cosines and sines of one rope table.
    struct Angles {
        float* cos = nullptr;
        float* sin = nullptr;
    };
    /// kUnsupported if the plan divides a group. What the device refuses is no error: the groups
    /// stay on the CPU and residency().degraded says why.
    static Result<std::unique_ptr<DeviceSide>> create(const Setup& setup);
    ~DeviceSide();
    DeviceSide(const DeviceSide&) = delete;
    DeviceSide& operator=(const DeviceSide&) = delete;

    /// The layer's keys and values belong here.
    bool attends(int layer) const;
    /// The layer's keys and values went to the CPU after all, and so does its attention.
    void give_up_attention(int layer);
    /// Nothing changes any more: gives back what no group needs, and counts the rest.
    void settle(std::int64_t kv_tokens);

    backend::Backend& backend() const { return *setup_.backend; }
    const Residency& residency() const { return residency_; }
    std::span<const backend::WeightView> weights() const { return weights_.views(); }
    /// By SlotId and by rope table; null where no op on the device needs it.
    std::span<const backend::SlotView> slots() const { return slots_; }
    std::span<const backend::RopeView> rope() const { return rope_; }
    /// The same memory, to be filled.
    std::span<const Angles> angles() const { return angles_; }

  private:
    explicit DeviceSide(const Setup& setup);
    /// Keeps groups on the CPU whose ops the device has no kernels for.
    void check_kernels();
    Status take_step_memory();
    void upload();
    void keep_on_cpu(std::size_t group, const std::string& reason);
    void give_up_all(const std::string& reason);
    Result<float*> take_floats(std::size_t count);
    std::vector<backend::UnitId> units_of(int group) const;
    void note_degraded();

    Setup setup_;
    std::vector<int> groups_of_ops_;
    Residency residency_;
    DeviceWeights weights_;
    std::vector<backend::Chunk> chunks_;  // of slots and angles
    std::vector<backend::SlotView> slots_;
    std::vector<Angles> angles_;
    std::vector<backend::RopeView> rope_;
    int n_wanted_ = 0;
    std::string first_reason_;
};

}  // namespace ballast::runtime
