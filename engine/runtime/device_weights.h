// SPDX-License-Identifier: MIT
// Copies of weights in a device's memory. A weight's home is the file mapping; a copy is a cache of
// it, packed with others into chunks, because only a whole chunk goes back to the system.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/result.h"
#include "engine/runtime/transfer_stats.h"
#include "engine/runtime/weight_slice.h"

namespace ballast::runtime {

/// Bytes of a chunk under a budget: many enough that giving one back matters little, few enough
/// that allocations stay rare.
std::uint64_t chunk_bytes(std::uint64_t budget_bytes);

/// Owned by the runtime; the backend and the host's weights outlive it.
class DeviceWeights {
  public:
    /// `stats`: where uploads are counted; null: nowhere.
    DeviceWeights(backend::Backend& backend,
                  std::span<const backend::WeightView> host,
                  TransferStats* stats = nullptr);
    ~DeviceWeights();
    DeviceWeights(const DeviceWeights&) = delete;
    DeviceWeights& operator=(const DeviceWeights&) = delete;

    /// Copies the slices of each group, in order, into chunks of at most that many bytes; a larger
    /// slice has a chunk of its own. Returns a Status a group: a chunk that cannot be taken or
    /// filled fails each group with a slice in it, and no other. Once.
    std::vector<Status> upload(std::span<const std::vector<WeightSlice>> groups,
                               std::uint64_t bytes_max);
    /// Gives the chunks back that none of these slices needs.
    void keep_only(std::span<const WeightSlice> slices);

    /// What is not there has no data.
    backend::WeightView view(const WeightSlice& slice) const;
    std::uint64_t total_bytes() const;

  private:
    struct Place {
        std::size_t slab = 0;
        std::size_t offset = 0;
    };
    struct Slab {
        backend::Chunk memory;
        std::size_t size_bytes = 0;
        std::vector<WeightSlice> slices;
        Status status;
    };
    void lay_out(std::span<const WeightSlice> slices, std::uint64_t bytes_max);
    Status fill(Slab& slab);
    void release(Slab& slab);
    const backend::WeightView& tensor(const WeightSlice& slice) const {
        return host_[static_cast<std::size_t>(slice.unit)];
    }

    backend::Backend& backend_;
    std::span<const backend::WeightView> host_;
    TransferStats* stats_;
    std::map<WeightSlice, Place> places_;
    std::vector<Slab> slabs_;
};

}  // namespace ballast::runtime
