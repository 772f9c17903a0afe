// SPDX-License-Identifier: MIT
// Each policy is an order in which groups move to the device until it is full.
#include "scheduler/placement/policies.h"

#include <algorithm>
#include <set>

namespace ballast::scheduler {

namespace {

/// Fills the device with whole groups in one order and knows every prefix's size.
class Filler {
  public:
    Filler(const TensorCatalog& catalog, const KvReserve& reserve)
        : catalog_(catalog), reserve_(reserve) {}

    /// Moves groups over in order, as long as each fits; stops at the first that does not.
    Placement fill(const std::vector<std::size_t>& order, double memory_limit) const {
        Placement placement = cpu_only(catalog_);
        double used = 0.0;
        for (const std::size_t index : order) {
            const GroupPlacement placed = all_resident(catalog_.groups[index]);
            const GroupBytes bytes = group_bytes(catalog_.groups[index], placed, reserve_);
            used += static_cast<double>(bytes.weights + bytes.kv);
            if (used > memory_limit) {
                break;
            }
            placement.groups[index] = placed;
        }
        return placement;
    }

  private:
    const TensorCatalog& catalog_;
    const KvReserve& reserve_;
};

std::vector<std::size_t> groups_of(const TensorCatalog& catalog, GroupKind kind) {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        if (catalog.groups[i].kind == kind) {
            indices.push_back(i);
        }
    }
    return indices;
}

std::vector<std::size_t> joined(std::vector<std::size_t> first,
                                const std::vector<std::size_t>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

/// The layers from the last to the first, each in its own order, then the head.
std::vector<std::size_t> last_layers_first(const TensorCatalog& catalog) {
    std::vector<std::size_t> order;
    for (std::size_t i = catalog.groups.size(); i-- > 0;) {
        if (catalog.groups[i].kind != GroupKind::kHead) {
            order.push_back(i);
        }
    }
    return joined(order, groups_of(catalog, GroupKind::kHead));
}

/// The last whole layers that fit; a layer's groups move together.
Placement whole_layers(const TensorCatalog& catalog,
                       double memory_limit,
                       const KvReserve& reserve) {
    Placement placement = Filler(catalog, reserve).fill(last_layers_first(catalog), memory_limit);
    // A layer whose groups do not all fit stays on the CPU.
    std::set<int> divided;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        if (placement.groups[i].resident == 0 && catalog.groups[i].kind != GroupKind::kHead) {
            divided.insert(catalog.groups[i].layer);
        }
    }
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        if (divided.contains(catalog.groups[i].layer)) {
            placement.groups[i] = {};
        }
    }
    return placement;
}

/// Everything but routed experts, then whole layers' experts from the first layer on.
std::vector<Placement> experts_last(const TensorCatalog& catalog,
                                    double memory_limit,
                                    const KvReserve& reserve) {
    if (!catalog.has_experts()) {
        return {};
    }
    Placement placement = cpu_only(catalog);
    double used = 0.0;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const TensorGroup& group = catalog.groups[i];
        GroupPlacement& placed = placement.groups[i];
        if (group.kind == GroupKind::kExperts) {
            placed.shared_on_device = true;
        } else {
            placed = all_resident(group);
        }
        const GroupBytes bytes = group_bytes(group, placed, reserve);
        used += static_cast<double>(bytes.weights + bytes.kv);
    }
    if (used > memory_limit) {
        return {};
    }
    for (const std::size_t i : groups_of(catalog, GroupKind::kExperts)) {
        const TensorGroup& group = catalog.groups[i];
        used += static_cast<double>(group.expert_bytes) * group.parts;
        if (used > memory_limit) {
            break;
        }
        placement.groups[i] = all_resident(group);
    }
    return {placement};
}

/// Whole groups in several orders: by layer from either end, attention and its KV first, weights
/// without KV first.
std::vector<std::vector<std::size_t>> static_orders(const TensorCatalog& catalog) {
    const std::vector<std::size_t> head = groups_of(catalog, GroupKind::kHead);
    const std::vector<std::size_t> attention = groups_of(catalog, GroupKind::kAttention);
    const std::vector<std::size_t> rest = joined(groups_of(catalog, GroupKind::kFeedForward),
                                                 groups_of(catalog, GroupKind::kExperts));
    std::vector<std::size_t> forwards;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        forwards.push_back(i);
    }
    return {forwards,
            joined(head, last_layers_first(catalog)),
            joined(attention, joined(head, rest)),
            joined(rest, joined(head, attention))};
}

std::vector<Placement> static_placements(const TensorCatalog& catalog,
                                         double memory_limit,
                                         const KvReserve& reserve) {
    std::vector<Placement> placements = experts_last(catalog, memory_limit, reserve);
    placements.push_back(whole_layers(catalog, memory_limit, reserve));
    const Filler filler(catalog, reserve);
    for (const std::vector<std::size_t>& order : static_orders(catalog)) {
        placements.push_back(filler.fill(order, memory_limit));
    }
    return placements;
}

/// Of the groups on the CPU, n evenly spaced ones stream in decode.
Placement with_streams(const TensorCatalog& catalog, Placement placement, std::size_t n) {
    std::vector<std::size_t> on_cpu;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        if (placement.groups[i].resident == 0 && catalog.groups[i].kind != GroupKind::kExperts) {
            on_cpu.push_back(i);
        }
    }
    for (std::size_t i = 0; i < on_cpu.size(); ++i) {
        if (is_evenly_spaced(
                static_cast<int>(i), static_cast<int>(n), static_cast<int>(on_cpu.size()))) {
            GroupPlacement& placed = placement.groups[on_cpu[i]];
            placed.streamed = catalog.groups[on_cpu[i]].parts;
        }
    }
    return placement;
}

std::vector<Placement> streaming_placements(const TensorCatalog& catalog,
                                            double memory_limit,
                                            const KvReserve& reserve) {
    constexpr std::size_t kSteps = 12;
    const double ring = kRingBytesMax;
    std::vector<Placement> placements;
    if (memory_limit <= ring) {
        return placements;
    }
    const Filler filler(catalog, reserve);
    for (const std::vector<std::size_t>& order : static_orders(catalog)) {
        // Streamed attention keeps its KV on the device, so that less is resident then.
        for (const double share : {1.0, 0.9}) {
            const Placement resident = filler.fill(order, (memory_limit - ring) * share);
            const auto on_cpu = static_cast<std::size_t>(
                std::count(resident.groups.begin(), resident.groups.end(), GroupPlacement{}));
            for (std::size_t step = 1; step <= kSteps; ++step) {
                const std::size_t n = on_cpu * step / kSteps;
                Placement placement = with_streams(catalog, resident, n);
                const DeviceBytes bytes = device_bytes(catalog, placement, reserve);
                if (n > 0 && static_cast<double>(bytes.total()) <= memory_limit) {
                    placements.push_back(std::move(placement));
                }
            }
        }
    }
    return placements;
}

}  // namespace

const char* policy_name(Policy policy) {
    switch (policy) {
        case Policy::kCpuOnly:
            return "CPU only";
        case Policy::kWholeLayers:
            return "whole layers (-ngl)";
        case Policy::kExpertsLast:
            return "experts last (--n-cpu-moe)";
        case Policy::kStatic:
            return "best whole groups";
        case Policy::kStaticStreaming:
            return "whole groups, streamed";
    }
    return "";
}

std::vector<Placement> policy_placements(Policy policy,
                                         const TensorCatalog& catalog,
                                         double memory_limit,
                                         const KvReserve& reserve,
                                         bool unified_memory) {
    switch (policy) {
        case Policy::kCpuOnly:
            return {cpu_only(catalog)};
        case Policy::kWholeLayers:
            return {whole_layers(catalog, memory_limit, reserve)};
        case Policy::kExpertsLast:
            return experts_last(catalog, memory_limit, reserve);
        case Policy::kStatic:
            return static_placements(catalog, memory_limit, reserve);
        case Policy::kStaticStreaming:
            return unified_memory ? std::vector<Placement>{}
                                  : streaming_placements(catalog, memory_limit, reserve);
    }
    return {};
}

}  // namespace ballast::scheduler
