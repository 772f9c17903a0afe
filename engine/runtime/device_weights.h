// SPDX-License-Identifier: MIT
// Copies of weights in a device's memory. A weight's home is the file mapping; a copy is a cache of
// it, packed with others into chunks, because only a whole chunk goes back to the system.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
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
    /// filled fails each group with a slice in it, and no other. Nothing is on its way before.
    std::vector<Status> upload(std::span<const std::vector<WeightSlice>> groups,
                               std::uint64_t bytes_max);
    /// Gives the chunks back that none of these slices needs. What else lies in the others stays.
    void keep_only(std::span<const WeightSlice> slices);

    // The same beside the steps, a little at a time.

    /// Lays out what of these groups is not there yet. Nothing is on its way before.
    void begin(std::span<const std::vector<WeightSlice>> groups, std::uint64_t bytes_max);
    bool is_uploading() const { return n_arrived_ < coming_.size(); }
    /// Of the chunks that are laid out, and for which memory is still to be taken.
    std::uint64_t untaken_bytes() const;
    /// Looks what has arrived, and puts copies on the copy queue until so many bytes are on their
    /// way. kOutOfMemory where a chunk has no room in `room_bytes` or the device refuses it, or an
    /// error of the device: then what is left is to be cancelled.
    Status advance(std::uint64_t bytes_most, std::uint64_t room_bytes);
    /// How many of begin()'s groups are there, in its order.
    std::size_t n_arrived() const { return n_arrived_; }
    /// Waits for what is on its way, and forgets the rest; keep_only() gives its chunks back.
    void cancel();

    /// What is not there has no data.
    backend::WeightView view(const WeightSlice& slice) const;
    /// Where it lies, to be written to; null if it is not there.
    std::byte* data(const WeightSlice& slice) const;
    std::uint64_t total_bytes() const;

  private:
    struct Place {
        std::size_t slab = 0;
        std::size_t offset = 0;
    };
    struct Slab {
        backend::Chunk memory = {};
        std::size_t size_bytes = 0;
        std::vector<WeightSlice> slices = {};
        Status status = {};
    };
    /// The slab that was begun last by this call, if there is one.
    using Open = std::optional<std::size_t>;
    void lay_out(std::span<const WeightSlice> slices, std::uint64_t bytes_max, Open& open);
    std::size_t empty_slab();
    Status put(const WeightSlice& slice, std::optional<backend::Event>& last);
    Status fill(Slab& slab);
    void release(Slab& slab);
    void forget(Slab& slab);
    const backend::WeightView& tensor(const WeightSlice& slice) const {
        return host_[static_cast<std::size_t>(slice.unit)];
    }

    backend::Backend& backend_;
    std::span<const backend::WeightView> host_;
    TransferStats* stats_;
    std::map<WeightSlice, Place> places_;
    std::vector<Slab> slabs_;
    std::vector<WeightSlice> queue_;   // to be copied, in order
    std::size_t n_put_ = 0;            // of them
    std::vector<std::size_t> coming_;  // by group of begin(): the copies after which it is there
    std::size_t n_arrived_ = 0;
    /// Copies on their way: how many of the queue are there when it has happened, and their bytes.
    struct Flight {
        backend::Event event = {};
        std::size_t n_copies = 0;
        std::uint64_t bytes = 0;
    };
    std::deque<Flight> flights_;
    std::size_t n_there_ = 0;  // of the queue
};

}  // namespace ballast::runtime
