// SPDX-License-Identifier: MIT
// Packing first, on paper; then chunk by chunk, memory and copies.
#include "engine/runtime/device_weights.h"

#include <algorithm>
#include <optional>
#include <set>

#include "engine/backend/put_or_wait.h"
#include "engine/base/units.h"

namespace ballast::runtime {

namespace {

constexpr std::uint64_t kChunkBytesMin = kMiB;
constexpr std::uint64_t kChunkBytesMax = 256 * kMiB;
constexpr std::uint64_t kChunksWanted = 16;
// A cache line, and what every device's vector loads ask for.
constexpr std::size_t kAlignment = 64;

}  // namespace

std::uint64_t chunk_bytes(std::uint64_t budget_bytes) {
    return std::clamp(budget_bytes / kChunksWanted, kChunkBytesMin, kChunkBytesMax);
}

DeviceWeights::DeviceWeights(backend::Backend& backend,
                             std::span<const backend::WeightView> host,
                             TransferStats* stats)
    : backend_(backend), host_(host), stats_(stats) {}

DeviceWeights::~DeviceWeights() {
    cancel();
    for (Slab& slab : slabs_) {
        release(slab);
    }
}

std::size_t DeviceWeights::empty_slab() {
    const auto empty = std::find_if(slabs_.begin(), slabs_.end(), [](const Slab& slab) {
        return slab.slices.empty() && slab.memory.data == nullptr;
    });
    if (empty != slabs_.end()) {
        *empty = {};
        return static_cast<std::size_t>(empty - slabs_.begin());
    }
    slabs_.emplace_back();
    return slabs_.size() - 1;
}

void DeviceWeights::lay_out(std::span<const WeightSlice> slices,
                            std::uint64_t bytes_max,
                            Open& open) {
    for (const WeightSlice& slice : slices) {
        if (places_.contains(slice)) {
            continue;
        }
        const std::size_t size = packed_bytes(tensor(slice), slice);
        if (!open || round_up(slabs_[*open].size_bytes, kAlignment) + size > bytes_max) {
            open = empty_slab();
        }
        Slab& slab = slabs_[*open];
        const Place place{*open, round_up(slab.size_bytes, kAlignment)};
        places_.emplace(slice, place);
        slab.size_bytes = place.offset + size;
        slab.slices.push_back(slice);
    }
}

Status DeviceWeights::put(const WeightSlice& slice, std::optional<backend::Event>& last) {
    const Place& place = places_.at(slice);
    std::byte* const to = slabs_[place.slab].memory.data + place.offset;
    const std::byte* const from = view_in_place(tensor(slice), slice).data;
    const backend::Strips strips = packing_strips(tensor(slice), slice);
    BALLAST_TRY_STATUS(backend::put_or_wait(backend_, last, [&] {
        return backend_.copy_strips_in(backend::Queue::kCopy, to, from, strips);
    }));
    if (stats_ != nullptr) {
        stats_->count(TransferDirection::kIn, TransferReason::kUpload, strips.total_bytes());
    }
    return {};
}

Status DeviceWeights::fill(Slab& slab) {
    BALLAST_TRY(slab.memory, backend_.allocate_chunk(slab.size_bytes));
    std::optional<backend::Event> last;
    Status status;
    for (const WeightSlice& slice : slab.slices) {
        status = put(slice, last);
        if (!status) {
            break;
        }
    }
    // Also after a failure: nothing may still be on its way when the chunk is given back.
    if (last) {
        const Status done = backend_.wait(*last);
        if (status) {
            status = done;
        }
    }
    return status;
}

void DeviceWeights::release(Slab& slab) {
    if (slab.memory.data != nullptr) {
        backend_.free_chunk(slab.memory);
        slab.memory = {};
    }
}

void DeviceWeights::forget(Slab& slab) {
    release(slab);
    for (const WeightSlice& slice : slab.slices) {
        places_.erase(slice);
    }
    slab = {};
}

std::vector<Status> DeviceWeights::upload(std::span<const std::vector<WeightSlice>> groups,
                                          std::uint64_t bytes_max) {
    Open open;
    std::set<std::size_t> slabs;
    for (const auto& slices : groups) {
        lay_out(slices, bytes_max, open);
        for (const WeightSlice& slice : slices) {
            slabs.insert(places_.at(slice).slab);
        }
    }
    for (const std::size_t i : slabs) {
        Slab& slab = slabs_[i];
        if (slab.memory.data == nullptr) {
            slab.status = fill(slab);
            if (!slab.status) {
                release(slab);
            }
        }
    }
    std::vector<Status> results;
    for (const auto& slices : groups) {
        Status& result = results.emplace_back();
        for (const WeightSlice& slice : slices) {
            const Status& status = slabs_[places_.at(slice).slab].status;
            if (!status) {
                result = status;
                break;
            }
        }
    }
    return results;
}

void DeviceWeights::keep_only(std::span<const WeightSlice> slices) {
    std::vector<bool> needed(slabs_.size());
    for (const WeightSlice& slice : slices) {
        const auto place = places_.find(slice);
        if (place != places_.end()) {
            needed[place->second.slab] = true;
        }
    }
    for (std::size_t i = 0; i < slabs_.size(); ++i) {
        if (!needed[i]) {
            forget(slabs_[i]);
        }
    }
}

void DeviceWeights::begin(std::span<const std::vector<WeightSlice>> groups,
                          std::uint64_t bytes_max) {
    queue_.clear();
    coming_.clear();
    n_put_ = n_there_ = n_arrived_ = 0;
    Open open;
    for (const auto& slices : groups) {
        for (const WeightSlice& slice : slices) {
            if (!places_.contains(slice)) {
                queue_.push_back(slice);
            }
        }
        lay_out(slices, bytes_max, open);
        coming_.push_back(queue_.size());
    }
}

std::uint64_t DeviceWeights::untaken_bytes() const {
    std::uint64_t sum = 0;
    for (const Slab& slab : slabs_) {
        sum += slab.memory.data == nullptr ? slab.size_bytes : 0;
    }
    return sum;
}

Status DeviceWeights::advance(std::uint64_t bytes_most, std::uint64_t room_bytes) {
    while (!flights_.empty() && backend_.done(flights_.front().event)) {
        BALLAST_TRY_STATUS(backend_.wait(flights_.front().event));
        n_there_ = flights_.front().n_copies;
        flights_.pop_front();
    }
    while (n_arrived_ < coming_.size() && coming_[n_arrived_] <= n_there_) {
        ++n_arrived_;
    }
    std::uint64_t on_the_way = 0;
    for (const Flight& flight : flights_) {
        on_the_way += flight.bytes;
    }
    while (n_put_ < queue_.size() && on_the_way < bytes_most) {
        const WeightSlice& slice = queue_[n_put_];
        Slab& slab = slabs_[places_.at(slice).slab];
        if (slab.memory.data == nullptr) {
            if (slab.size_bytes > room_bytes) {
                return fail(ErrorCode::kOutOfMemory, "there is no room for more weights");
            }
            BALLAST_TRY(slab.memory, backend_.allocate_chunk(slab.size_bytes));
            room_bytes -= slab.size_bytes;
        }
        auto last = flights_.empty() ? std::nullopt : std::optional(flights_.back().event);
        BALLAST_TRY_STATUS(put(slice, last));
        ++n_put_;
        const std::uint64_t bytes = packed_bytes(tensor(slice), slice);
        flights_.push_back({*last, n_put_, bytes});
        on_the_way += bytes;
    }
    return {};
}

void DeviceWeights::cancel() {
    if (!flights_.empty()) {
        // What it says is of no use any more; events of one queue happen in order.
        static_cast<void>(backend_.wait(flights_.back().event));
        flights_.clear();
    }
    for (std::size_t i = n_put_; i < queue_.size(); ++i) {
        const auto place = places_.find(queue_[i]);
        Slab& slab = slabs_[place->second.slab];
        slab.slices.erase(std::find(slab.slices.begin(), slab.slices.end(), queue_[i]));
        places_.erase(place);
        if (slab.slices.empty()) {
            forget(slab);
        }
    }
    queue_.clear();
    coming_.clear();
    n_put_ = n_there_ = n_arrived_ = 0;
}

std::byte* DeviceWeights::data(const WeightSlice& slice) const {
    const auto place = places_.find(slice);
    std::byte* const chunk =
        place == places_.end() ? nullptr : slabs_[place->second.slab].memory.data;
    return chunk == nullptr ? nullptr : chunk + place->second.offset;
}

backend::WeightView DeviceWeights::view(const WeightSlice& slice) const {
    return packed_view(tensor(slice), slice, data(slice));
}

std::uint64_t DeviceWeights::total_bytes() const {
    std::uint64_t sum = 0;
    for (const Slab& slab : slabs_) {
        sum += slab.memory.size_bytes;
    }
    return sum;
}

}  // namespace ballast::runtime
