// SPDX-License-Identifier: MIT
// Goes backwards through the layers and takes what fits.
#include "tests/engine/runtime/whole_groups.h"

namespace ballast::test {

namespace {

using scheduler::GroupKind;
using scheduler::TensorGroup;

// Tensors begin on 64-byte borders; a group has fewer than this many of them.
constexpr std::uint64_t kPaddingOfGroup = 64 * 32;

std::uint64_t bytes_of(const TensorGroup& group, const scheduler::KvReserve& reserve) {
    std::uint64_t bytes = group.weight_bytes + group.state_bytes + kPaddingOfGroup +
                          group.kv_bytes_per_token * static_cast<std::uint64_t>(reserve.tokens);
    if (group.kind == GroupKind::kExperts) {
        bytes += group.expert_bytes * static_cast<std::uint64_t>(group.parts);
    }
    return bytes;
}

}  // namespace

scheduler::Placement place_whole_groups(const scheduler::TensorCatalog& catalog,
                                        const DeviceRoom& room) {
    scheduler::Placement placement = scheduler::cpu_only(catalog);
    if (room.budget_bytes <= room.step.layers) {
        return placement;
    }
    std::uint64_t left = room.budget_bytes - room.step.layers;
    const auto place = [&](std::size_t index, std::uint64_t more) {
        const TensorGroup& group = catalog.groups[index];
        const std::uint64_t bytes = bytes_of(group, room.reserve) + more;
        if (bytes > left) {
            return false;
        }
        left -= bytes;
        placement.groups[index] = scheduler::all_resident(group);
        return true;
    };
    bool fits = true;
    for (std::size_t i = catalog.groups.size(); i > 0 && fits; --i) {
        fits = catalog.groups[i - 1].kind == GroupKind::kHead || place(i - 1, 0);
    }
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        if (catalog.groups[i].kind == GroupKind::kHead) {
            place(i, room.step.head);
        }
    }
    return placement;
}

}  // namespace ballast::test
