// SPDX-License-Identifier: MIT
// Who computes which experts, as backends take it: the device those that are in its slots, the CPU
// the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/step_context.h"
#include "engine/base/ids.h"

namespace ballast::runtime {

/// Changed between steps only: what is queued views it until it has run. Engine thread.
class ExpertViews {
  public:
    /// All experts of all layers are the CPU's at first.
    ExpertViews(int n_layers, int n_experts);
    ExpertViews(const ExpertViews&) = delete;
    ExpertViews& operator=(const ExpertViews&) = delete;

    /// slots[expert]: its slot on the device, −1: it is the CPU's.
    void set(int layer, std::span<const int> slots);
    /// StepContext::experts of either side.
    std::span<const backend::ExpertSlices> of(DeviceId device) const;
    /// How many of the layer's experts this side has: with none it has no part in it.
    int n_of(int layer, DeviceId device) const;

  private:
    struct Layer {
        std::vector<std::int32_t> device;
        std::vector<std::int32_t> cpu;
        int n_on_device = 0;
    };

    int n_experts_;
    std::vector<Layer> layers_;
    std::vector<backend::ExpertSlices> cpu_;
    std::vector<backend::ExpertSlices> device_;
};

}  // namespace ballast::runtime
