// SPDX-License-Identifier: MIT
// Sums over the groups, and the reading of a placement.
#include "engine/runtime/residency.h"

#include <algorithm>

#include <fmt/format.h>

namespace ballast::runtime {

using scheduler::GroupKind;

int Residency::n_on_device() const {
    return static_cast<int>(
        std::count_if(groups.begin(), groups.end(), [](const GroupResidency& group) {
            return group.device == DeviceId::kDevice;
        }));
}

std::uint64_t Residency::device_bytes() const {
    std::uint64_t sum = device_step_bytes;
    for (const GroupResidency& group : groups) {
        sum += group.device_weight_bytes + group.device_kv_bytes;
    }
    return sum;
}

std::vector<DeviceId> Residency::devices() const {
    std::vector<DeviceId> result;
    result.reserve(groups.size());
    for (const GroupResidency& group : groups) {
        result.push_back(group.device);
    }
    return result;
}

std::string group_name(const scheduler::TensorGroup& group) {
    switch (group.kind) {
        case GroupKind::kAttention:
            return fmt::format("the attention of layer {}", group.layer);
        case GroupKind::kFeedForward:
            return fmt::format("the feed-forward of layer {}", group.layer);
        case GroupKind::kExperts:
            return fmt::format("the experts of layer {}", group.layer);
        case GroupKind::kHead:
            break;
    }
    return "the head";
}

Result<std::vector<DeviceId>> whole_group_devices(const scheduler::TensorCatalog& catalog,
                                                  const scheduler::Placement& placement) {
    if (placement.groups.size() != catalog.groups.size()) {
        return fail(ErrorCode::kInternal,
                    fmt::format("the plan places {} groups, but the model has {}",
                                placement.groups.size(),
                                catalog.groups.size()));
    }
    std::vector<DeviceId> devices;
    devices.reserve(catalog.groups.size());
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const scheduler::TensorGroup& group = catalog.groups[i];
        const scheduler::GroupPlacement& placed = placement.groups[i];
        const bool whole = placed.resident == group.parts &&
                           (group.kind != GroupKind::kExperts || placed.shared_on_device);
        const bool none = placed.resident == 0 && !placed.shared_on_device;
        if ((!whole && !none) || placed.streamed != 0 || placed.prefill_streamed != 0) {
            return fail(ErrorCode::kUnsupported,
                        fmt::format("the plan puts {} of the {} parts of {} on the device and "
                                    "streams {} to it; only whole groups can be placed yet",
                                    placed.resident,
                                    group.parts,
                                    group_name(group),
                                    std::max(placed.streamed, placed.prefill_streamed)));
        }
        devices.push_back(whole ? DeviceId::kDevice : DeviceId::kCpu);
    }
    return devices;
}

}  // namespace ballast::runtime
