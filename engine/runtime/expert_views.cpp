// SPDX-License-Identifier: MIT
// The slots of the device and their complement.
#include "engine/runtime/expert_views.h"

#include "engine/base/check.h"

namespace ballast::runtime {

ExpertViews::ExpertViews(int n_layers, int n_experts)
    : n_experts_(n_experts), layers_(static_cast<std::size_t>(n_layers)) {
    const std::vector<int> none(static_cast<std::size_t>(n_experts), -1);
    for (int layer = 0; layer < n_layers; ++layer) {
        Layer& of = layers_[static_cast<std::size_t>(layer)];
        of.device.resize(none.size());
        of.cpu.resize(none.size());
        set(layer, none);
        device_.push_back({.slice_of = of.device});
        cpu_.push_back({.slice_of = of.cpu});
    }
}

void ExpertViews::set(int layer, std::span<const int> slots) {
    Layer& of = layers_[static_cast<std::size_t>(layer)];
    BALLAST_CHECK(slots.size() == of.device.size());
    of.n_on_device = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const bool on_device = slots[i] >= 0;
        of.device[i] = slots[i];
        // The host's units hold every expert, in order.
        of.cpu[i] = on_device ? -1 : static_cast<std::int32_t>(i);
        of.n_on_device += on_device ? 1 : 0;
    }
}

std::span<const backend::ExpertSlices> ExpertViews::of(DeviceId device) const {
    return device == DeviceId::kCpu ? cpu_ : device_;
}

int ExpertViews::n_of(int layer, DeviceId device) const {
    const int n = layers_[static_cast<std::size_t>(layer)].n_on_device;
    return device == DeviceId::kCpu ? n_experts_ - n : n;
}

}  // namespace ballast::runtime
