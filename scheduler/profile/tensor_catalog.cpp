// SPDX-License-Identifier: MIT
// Sums over the groups.
#include "scheduler/profile/tensor_catalog.h"

#include <algorithm>

namespace ballast::scheduler {

std::uint64_t TensorCatalog::total_bytes() const {
    std::uint64_t sum = embedding_bytes;
    for (const TensorGroup& group : groups) {
        sum += group.weight_bytes;
        if (group.kind == GroupKind::kExperts) {
            sum += group.expert_bytes * static_cast<std::uint64_t>(group.parts);
        }
    }
    return sum;
}

std::uint64_t TensorCatalog::kv_bytes_per_token() const {
    std::uint64_t sum = 0;
    for (const TensorGroup& group : groups) {
        sum += group.kv_bytes_per_token;
    }
    return sum;
}

std::uint64_t TensorCatalog::state_bytes() const {
    std::uint64_t sum = 0;
    for (const TensorGroup& group : groups) {
        sum += group.state_bytes;
    }
    return sum;
}

bool TensorCatalog::has_experts() const {
    return std::any_of(groups.begin(), groups.end(), [](const TensorGroup& group) {
        return group.kind == GroupKind::kExperts;
    });
}

}  // namespace ballast::scheduler
