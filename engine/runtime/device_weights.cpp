// SPDX-License-Identifier: MIT
// Packing first, on paper; then chunk by chunk, memory and copies.
#include "engine/runtime/device_weights.h"

#include <algorithm>
#include <optional>

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

DeviceWeights::DeviceWeights(backend::Backend& backend, std::span<const backend::WeightView> host)
    : backend_(backend), host_(host), views_(host.begin(), host.end()), places_(host.size()) {
    for (backend::WeightView& view : views_) {
        view.data = nullptr;
    }
}

DeviceWeights::~DeviceWeights() {
    for (Slab& slab : slabs_) {
        release(slab);
    }
}

std::size_t DeviceWeights::bytes_of(backend::UnitId unit) const {
    const backend::WeightView& view = host_[static_cast<std::size_t>(unit)];
    return view.n_slices * view.slice_bytes();
}

void DeviceWeights::lay_out(std::span<const backend::UnitId> units, std::uint64_t bytes_max) {
    for (const backend::UnitId unit : units) {
        Place& place = places_[static_cast<std::size_t>(unit)];
        if (place.chunk >= 0) {
            continue;
        }
        const std::size_t size = bytes_of(unit);
        if (slabs_.empty() || round_up(slabs_.back().size_bytes, kAlignment) + size > bytes_max) {
            slabs_.emplace_back();
        }
        Slab& slab = slabs_.back();
        place.chunk = static_cast<int>(slabs_.size()) - 1;
        place.offset = round_up(slab.size_bytes, kAlignment);
        slab.size_bytes = place.offset + size;
        slab.units.push_back(unit);
    }
}

Status DeviceWeights::fill(Slab& slab) {
    BALLAST_TRY(slab.memory, backend_.allocate_chunk(slab.size_bytes));
    std::optional<backend::Event> last;
    const auto copy = [&](backend::UnitId unit) -> Status {
        const auto index = static_cast<std::size_t>(unit);
        std::byte* to = slab.memory.data + places_[index].offset;
        const std::span<const std::byte> from(host_[index].data, bytes_of(unit));
        auto event = backend_.copy_in(to, from);
        if (!event && event.error().code == ErrorCode::kOverloaded && last) {
            BALLAST_TRY_STATUS(backend_.wait(*last));
            event = backend_.copy_in(to, from);
        }
        BALLAST_TRY(last, std::move(event));
        return {};
    };
    Status status;
    for (const backend::UnitId unit : slab.units) {
        status = copy(unit);
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
    for (const backend::UnitId unit : slab.units) {
        views_[static_cast<std::size_t>(unit)].data = nullptr;
    }
}

std::vector<Status> DeviceWeights::upload(std::span<const std::vector<backend::UnitId>> groups,
                                          std::uint64_t bytes_max) {
    for (const auto& units : groups) {
        lay_out(units, bytes_max);
    }
    for (Slab& slab : slabs_) {
        slab.status = fill(slab);
        if (!slab.status) {
            release(slab);
            continue;
        }
        for (const backend::UnitId unit : slab.units) {
            const auto index = static_cast<std::size_t>(unit);
            views_[index].data = slab.memory.data + places_[index].offset;
        }
    }
    std::vector<Status> results;
    for (const auto& units : groups) {
        Status& result = results.emplace_back();
        for (const backend::UnitId unit : units) {
            const int chunk = places_[static_cast<std::size_t>(unit)].chunk;
            const Status& status = slabs_[static_cast<std::size_t>(chunk)].status;
            if (!status) {
                result = status;
                break;
            }
        }
    }
    return results;
}

void DeviceWeights::keep_only(std::span<const backend::UnitId> units) {
    std::vector<bool> needed(slabs_.size());
    for (const backend::UnitId unit : units) {
        const int chunk = places_[static_cast<std::size_t>(unit)].chunk;
        if (chunk >= 0) {
            needed[static_cast<std::size_t>(chunk)] = true;
        }
    }
    for (std::size_t i = 0; i < slabs_.size(); ++i) {
        if (!needed[i]) {
            release(slabs_[i]);
        }
    }
}

std::uint64_t DeviceWeights::total_bytes() const {
    std::uint64_t sum = 0;
    for (const Slab& slab : slabs_) {
        sum += slab.memory.data != nullptr ? slab.size_bytes : 0;
    }
    return sum;
}

}  // namespace ballast::runtime
