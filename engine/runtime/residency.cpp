// SPDX-License-Identifier: MIT
// Sums over the groups, and the reading of a placement.
#include "engine/runtime/residency.h"

#include <algorithm>
#include <map>

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

std::vector<PlacedBytes> placed_bytes(const scheduler::TensorCatalog& catalog,
                                      const Residency& residency) {
    std::map<std::pair<std::string, std::string>, std::uint64_t> sums;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const scheduler::TensorGroup& group = catalog.groups[i];
        const GroupResidency& facts = residency.groups[i];
        const bool on_cpu = facts.device == DeviceId::kCpu;
        const std::string device = on_cpu ? "cpu" : "device";
        std::uint64_t weights = group.weight_bytes;
        if (group.kind == scheduler::GroupKind::kExperts) {
            weights += group.expert_bytes * static_cast<std::uint64_t>(group.parts);
        }
        sums[{device, class_name(group.kind)}] += on_cpu ? weights : facts.device_weight_bytes;
        const std::uint64_t kv =
            group.kv_bytes_per_token * static_cast<std::uint64_t>(residency.kv_tokens) +
            group.state_bytes;
        if (kv > 0) {
            sums[{device, "kv"}] += on_cpu ? kv : facts.device_kv_bytes;
        }
    }
    sums[{"cpu", "embedding"}] = catalog.embedding_bytes;
    std::vector<PlacedBytes> placed;
    placed.reserve(sums.size());
    for (const auto& [key, bytes] : sums) {
        placed.push_back({.device = key.first, .tensor_class = key.second, .bytes = bytes});
    }
    return placed;
}

}  // namespace ballast::runtime
