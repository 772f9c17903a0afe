// SPDX-License-Identifier: MIT
// Device memory of a placement.
#include "scheduler/placement/placement.h"

#include <algorithm>

#include "engine/base/check.h"

namespace ballast::scheduler {

namespace {

std::uint64_t share(std::uint64_t bytes, int parts, int of) {
    // Rounded up, so that a sum of shares is never less than what they take.
    const auto n = static_cast<std::uint64_t>(of);
    return (bytes * static_cast<std::uint64_t>(parts) + n - 1) / n;
}

/// The most one group sends over the link in one step, of either phase.
std::uint64_t streamed_bytes(const TensorGroup& group, const GroupPlacement& placement) {
    const int parts = std::max(placement.streamed, placement.prefill_streamed);
    if (parts == 0) {
        return 0;
    }
    if (group.kind == GroupKind::kExperts) {
        const std::uint64_t experts = group.expert_bytes * static_cast<std::uint64_t>(parts);
        return experts + (placement.shared_on_device ? 0 : group.weight_bytes);
    }
    return share(group.weight_bytes, parts, group.parts);
}

}  // namespace

GroupPlacement all_resident(const TensorGroup& group) {
    return {.resident = group.parts, .shared_on_device = group.kind == GroupKind::kExperts};
}

bool Placement::streams() const {
    return std::any_of(groups.begin(), groups.end(), [](const GroupPlacement& placed) {
        return placed.streamed > 0;
    });
}

int Placement::n_on_device() const {
    return static_cast<int>(
        std::count_if(groups.begin(), groups.end(), [](const GroupPlacement& placed) {
            return placed.on_device();
        }));
}

Placement cpu_only(const TensorCatalog& catalog) {
    return {.groups = std::vector<GroupPlacement>(catalog.groups.size())};
}

GroupBytes group_bytes(const TensorGroup& group,
                       const GroupPlacement& placed,
                       const KvReserve& reserve) {
    GroupBytes bytes;
    const int mapped = reserve.unified_memory ? placed.prefill_streamed : 0;
    const int resident = placed.resident + mapped;
    bytes.piece = reserve.unified_memory ? 0 : streamed_bytes(group, placed);
    if (group.kind == GroupKind::kExperts) {
        bytes.weights = group.expert_bytes * static_cast<std::uint64_t>(resident) +
                        (placed.shared_on_device || mapped > 0 ? group.weight_bytes : 0);
        return bytes;
    }
    bytes.weights = share(group.weight_bytes, resident, group.parts);
    const std::uint64_t kv =
        group.kv_bytes_per_token * static_cast<std::uint64_t>(reserve.tokens) + group.state_bytes;
    bytes.kv = share(kv, resident + placed.streamed, group.parts);
    return bytes;
}

DeviceBytes device_bytes(const TensorCatalog& catalog,
                         const Placement& placement,
                         const KvReserve& reserve) {
    BALLAST_CHECK(placement.groups.size() == catalog.groups.size());
    DeviceBytes bytes;
    std::uint64_t largest_piece = 0;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const GroupBytes group = group_bytes(catalog.groups[i], placement.groups[i], reserve);
        bytes.weights += group.weights;
        bytes.kv += group.kv;
        largest_piece = std::max(largest_piece, group.piece);
    }
    bytes.ring = static_cast<std::uint64_t>(ring_bytes(static_cast<double>(largest_piece)));
    return bytes;
}

}  // namespace ballast::scheduler
