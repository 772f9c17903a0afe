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
            return group.on_device();
        }));
}

std::uint64_t Residency::device_bytes() const {
    std::uint64_t sum = device_step_bytes + ring_bytes;
    for (const GroupResidency& group : groups) {
        sum += group.device_weight_bytes + group.device_kv_bytes;
    }
    return sum;
}

std::vector<GroupDivision> Residency::divisions(StepKind kind) const {
    std::vector<GroupDivision> result;
    result.reserve(groups.size());
    for (const GroupResidency& group : groups) {
        result.push_back(group.division(kind));
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

Result<std::vector<GroupResidency>> wanted_residency(const scheduler::TensorCatalog& catalog,
                                                     const scheduler::Placement& placement) {
    if (placement.groups.size() != catalog.groups.size()) {
        return fail(ErrorCode::kInternal,
                    fmt::format("the plan places {} groups, but the model has {}",
                                placement.groups.size(),
                                catalog.groups.size()));
    }
    std::vector<GroupResidency> wanted;
    wanted.reserve(catalog.groups.size());
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const scheduler::TensorGroup& group = catalog.groups[i];
        const scheduler::GroupPlacement& placed = placement.groups[i];
        const int most = std::max(placed.streamed, placed.prefill_streamed);
        if (placed.resident < 0 || placed.streamed < 0 || placed.prefill_streamed < 0 ||
            placed.resident + most > group.parts) {
            return fail(ErrorCode::kInternal,
                        fmt::format("the plan puts {} parts of {} on the device and streams {}, "
                                    "but it has {}",
                                    placed.resident,
                                    group_name(group),
                                    most,
                                    group.parts));
        }
        if (group.kind == GroupKind::kExperts &&
            (placed.streamed > 0 || (placed.resident + most > 0 && !placed.shared_on_device))) {
            return fail(ErrorCode::kUnsupported,
                        fmt::format("the plan puts {} of the {} parts of {} on the device and "
                                    "streams {}; experts stream in prefill only, and need their "
                                    "router there",
                                    placed.resident,
                                    group.parts,
                                    group_name(group),
                                    most));
        }
        wanted.push_back({.resident = placed.resident,
                          .streamed = placed.streamed,
                          .prefill_streamed = group.kind == GroupKind::kAttention
                                                  ? placed.streamed
                                                  : placed.prefill_streamed});
    }
    return wanted;
}

std::vector<PlacedBytes> placed_bytes(const scheduler::TensorCatalog& catalog,
                                      const Residency& residency) {
    std::map<std::pair<std::string, std::string>, std::uint64_t> sums;
    const auto add = [&](const char* name, std::uint64_t all, std::uint64_t on_device) {
        const std::uint64_t rest = all - std::min(all, on_device);
        if (rest > 0 || on_device == 0) {
            sums[{"cpu", name}] += rest;
        }
        if (on_device > 0) {
            sums[{"device", name}] += on_device;
        }
    };
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const scheduler::TensorGroup& group = catalog.groups[i];
        const GroupResidency& facts = residency.groups[i];
        std::uint64_t weights = group.weight_bytes;
        if (group.kind == scheduler::GroupKind::kExperts) {
            weights += group.expert_bytes * static_cast<std::uint64_t>(group.parts);
        }
        add(class_name(group.kind), weights, facts.device_weight_bytes);
        const std::uint64_t kv =
            group.kv_bytes_per_token * static_cast<std::uint64_t>(residency.kv_tokens) +
            group.state_bytes;
        if (kv > 0) {
            add("kv", kv, facts.device_kv_bytes);
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
