// SPDX-License-Identifier: MIT
// Where each group of tensors goes.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/profile/tensor_catalog.h"

namespace ballast::scheduler {

/// One group's division, in the group's own parts: the first `resident` are in device memory and
/// computed there, the next `streamed` cross the link in every decode step and are computed on the
/// device, the CPU computes the rest at the same time.
///
/// Of a group of experts the parts are the routed experts: `resident` slots in device memory, never
/// streamed in decode. Its router and always-used experts are on the device if `shared_on_device`,
/// without which it has no resident experts either.
struct GroupPlacement {
    int resident = 0;
    int streamed = 0;
    /// Parts that cross the link in a prefill step; the rest of what is not resident is the CPU's.
    /// On unified memory they need not cross anything.
    int prefill_streamed = 0;
    bool shared_on_device = false;

    /// The device has a part in each decode step.
    bool on_device() const { return resident + streamed > 0 || shared_on_device; }

    friend bool operator==(const GroupPlacement&, const GroupPlacement&) = default;
};

/// All of the group resident, with what its experts always use.
GroupPlacement all_resident(const TensorGroup& group);

/// One entry a group of the catalog, in its order. Plain data; a pure function's result.
struct Placement {
    std::vector<GroupPlacement> groups = {};

    /// Whether anything crosses the link in decode.
    bool streams() const;
    /// How many groups are on the device, wholly or in part.
    int n_on_device() const;

    friend bool operator==(const Placement&, const Placement&) = default;
};

/// Everything on the CPU.
Placement cpu_only(const TensorCatalog& catalog);

/// What is reserved up front, and how memory is counted.
struct KvReserve {
    std::int64_t tokens = 0;  // whose keys and values are reserved: those of all sequences
    /// One memory: nothing is copied and there is no ring. What the device computes in prefill only
    /// is mapped for it like what it always computes.
    bool unified_memory = false;
};

/// One group's part of that, and what it sends over the link in one step, of either phase.
struct GroupBytes {
    std::uint64_t weights = 0;
    std::uint64_t kv = 0;
    std::uint64_t piece = 0;
};
GroupBytes group_bytes(const TensorGroup& group,
                       const GroupPlacement& placed,
                       const KvReserve& reserve);

/// Device memory a placement takes, in bytes: resident weights, KV cache and states of the KV heads
/// the device computes, and the ring.
struct DeviceBytes {
    std::uint64_t weights = 0;
    std::uint64_t kv = 0;
    std::uint64_t ring = 0;

    std::uint64_t total() const { return weights + kv + ring; }
};
DeviceBytes device_bytes(const TensorCatalog& catalog,
                         const Placement& placement,
                         const KvReserve& reserve);

/// The ring through which weights stream: this many tiles of at most this size, fewer bytes if the
/// largest streamed piece is smaller (research: within 0.5% of the best size).
constexpr int kRingTiles = 4;
constexpr std::uint64_t kTileBytesMax = 32ULL << 20U;
constexpr double kRingBytesMax = static_cast<double>(kRingTiles * kTileBytesMax);
/// Bytes of the ring for this largest piece; whole numbers stay exact.
constexpr double ring_bytes(double largest_piece) {
    const double ring = kRingTiles * largest_piece;
    return ring < kRingBytesMax ? ring : kRingBytesMax;
}

/// Whether the i-th of `of` things is among n evenly spaced ones.
constexpr bool is_evenly_spaced(int i, int n, int of) {
    const auto at = [&](std::int64_t index) { return index * n / of; };
    return at(i + 1) > at(i);
}

}  // namespace ballast::scheduler
