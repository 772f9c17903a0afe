// SPDX-License-Identifier: MIT
// Packing first, on paper; then chunk by chunk, memory and copies.
#include "engine/runtime/device_weights.h"

#include <algorithm>
#include <optional>

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
    for (Slab& slab : slabs_) {
        release(slab);
    }
}

void DeviceWeights::lay_out(std::span<const WeightSlice> slices, std::uint64_t bytes_max) {
    for (const WeightSlice& slice : slices) {
        if (places_.contains(slice)) {
            continue;
        }
        const std::size_t size = packed_bytes(tensor(slice), slice);
        if (slabs_.empty() || round_up(slabs_.back().size_bytes, kAlignment) + size > bytes_max) {
            slabs_.emplace_back();
        }
        Slab& slab = slabs_.back();
        const Place place{slabs_.size() - 1, round_up(slab.size_bytes, kAlignment)};
        places_.emplace(slice, place);
        slab.size_bytes = place.offset + size;
        slab.slices.push_back(slice);
    }
}

Status DeviceWeights::fill(Slab& slab) {
    BALLAST_TRY(slab.memory, backend_.allocate_chunk(slab.size_bytes));
    std::optional<backend::Event> last;
    const auto copy = [&](const WeightSlice& slice) -> Status {
        std::byte* const to = slab.memory.data + places_.at(slice).offset;
        const std::byte* const from = view_in_place(tensor(slice), slice).data;
        const backend::Strips strips = packing_strips(tensor(slice), slice);
        BALLAST_TRY_STATUS(backend::put_or_wait(backend_, last, [&] {
            return backend_.copy_strips_in(backend::Queue::kCopy, to, from, strips);
        }));
        if (stats_ != nullptr) {
            stats_->count(TransferDirection::kIn, TransferReason::kUpload, strips.total_bytes());
        }
        return {};
    };
    Status status;
    for (const WeightSlice& slice : slab.slices) {
        status = copy(slice);
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

std::vector<Status> DeviceWeights::upload(std::span<const std::vector<WeightSlice>> groups,
                                          std::uint64_t bytes_max) {
    for (const auto& slices : groups) {
        lay_out(slices, bytes_max);
    }
    for (Slab& slab : slabs_) {
        slab.status = fill(slab);
        if (!slab.status) {
            release(slab);
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
            release(slabs_[i]);
        }
    }
}

backend::WeightView DeviceWeights::view(const WeightSlice& slice) const {
    const auto place = places_.find(slice);
    const std::byte* const chunk =
        place == places_.end() ? nullptr : slabs_[place->second.slab].memory.data;
    return packed_view(
        tensor(slice), slice, chunk == nullptr ? nullptr : chunk + place->second.offset);
}

std::uint64_t DeviceWeights::total_bytes() const {
    std::uint64_t sum = 0;
    for (const Slab& slab : slabs_) {
        sum += slab.memory.data != nullptr ? slab.size_bytes : 0;
    }
    return sum;
}

}  // namespace ballast::runtime
