// SPDX-License-Identifier: MIT
// Copies in the order of use, each behind the last reader of its place.
#include "engine/runtime/weight_ring.h"

#include <algorithm>
#include <numeric>

#include "engine/backend/put_or_wait.h"

namespace ballast::runtime {

WeightRing::WeightRing(const WeightRing& owner, PlaceRange places)
    : backend_(owner.backend_),
      log_(owner.log_),
      owns_places_(false),
      n_places_(places.n),
      experts_(owner.experts_) {
    std::copy_n(owner.places_.begin() + static_cast<std::ptrdiff_t>(places.first),
                places.n,
                places_.begin());
}

WeightRing::~WeightRing() {
    release();
}

void WeightRing::release() {
    if (last_copy_) {
        // A step that was left may have ordered copies that no op waited for. What the wait says
        // is of no use any more.
        static_cast<void>(backend_.wait(*last_copy_));
        last_copy_.reset();
    }
    for (backend::Chunk& place : places_) {
        if (place.data != nullptr && owns_places_) {
            backend_.free_chunk(place);
        }
        place = {};
    }
}

WeightRing::Sizes WeightRing::sizes_for(std::span<const StepProgram* const> programs, bool halves) {
    Sizes sizes = {};
    bool all = true;
    for (const StepProgram* const program : programs) {
        all = all && !program->tiles.empty();
        for (std::size_t i = 0; i < program->tiles.size(); ++i) {
            std::size_t& size = sizes[i % kTiles];
            size = std::max(size, program->tiles[i].size_bytes);
        }
    }
    if (halves && all) {
        sizes.fill(*std::max_element(sizes.begin(), sizes.end()));
    }
    return sizes;
}

std::uint64_t WeightRing::bytes_for(std::span<const StepProgram* const> programs, bool halves) {
    const Sizes sizes = sizes_for(programs, halves);
    return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

bool WeightRing::fits(std::span<const StepProgram* const> programs, bool halves) const {
    const Sizes sizes = sizes_for(programs, halves);
    const bool none = sizes == Sizes{};
    for (std::size_t i = 0; i < kTiles; ++i) {
        if (places_[i].size_bytes < sizes[i] || (none && places_[i].data != nullptr)) {
            return false;
        }
    }
    return true;
}

Status WeightRing::reserve(std::span<const StepProgram* const> programs, bool halves) {
    const Sizes sizes = sizes_for(programs, halves);
    for (std::size_t i = 0; i < kTiles; ++i) {
        if (sizes[i] > 0) {
            BALLAST_TRY(places_[i], backend_.allocate_chunk(sizes[i]));
        }
    }
    return {};
}

std::uint64_t WeightRing::total_bytes() const {
    std::uint64_t sum = 0;
    for (const backend::Chunk& place : places_) {
        sum += place.size_bytes;
    }
    return sum;
}

Status WeightRing::begin(const StepProgram& program,
                         StepKind kind,
                         std::span<const backend::WeightView> tensors) {
    return begin(program, kind, tensors, program.tiles.size());
}

Status WeightRing::begin(const StepProgram& program,
                         StepKind kind,
                         std::span<const backend::WeightView> tensors,
                         std::size_t n_tiles) {
    program_ = &program;
    kind_ = kind;
    tensors_ = tensors;
    n_tiles_ = n_tiles;
    last_copy_.reset();
    return restart(0);
}

Status WeightRing::restart(std::size_t tile) {
    n_loaded_ = tile;
    n_free_ = tile;
    while (n_loaded_ < std::min(tile + n_places_, n_tiles_)) {
        BALLAST_TRY_STATUS(load(n_loaded_));
    }
    return {};
}

Status WeightRing::load(std::size_t number) {
    const StepTile& tile = program_->tiles[number];
    const auto& units = program_->sides[1].units();
    const std::span<const int> order =
        experts_ != nullptr ? experts_->order(tile.group) : std::span<const int>();
    for (std::size_t i = 0; i < tile.units.size(); ++i) {
        const WeightSlice& slice = units[static_cast<std::size_t>(tile.units[i])].slice;
        std::byte* const to = this->tile(number) + tile.offsets[i];
        if (order.empty()) {
            BALLAST_TRY_STATUS(load_slice(number, slice, to));
            continue;
        }
        // Experts that follow each other in the file cross together.
        const std::size_t each = tensors_[static_cast<std::size_t>(slice.unit)].slice_bytes();
        for (std::size_t n = 0; n < slice.n_matrices;) {
            WeightSlice run = slice;
            run.first_matrix = static_cast<std::size_t>(order[slice.first_matrix + n]);
            run.n_matrices = 1;
            while (n + run.n_matrices < slice.n_matrices &&
                   static_cast<std::size_t>(order[slice.first_matrix + n + run.n_matrices]) ==
                       run.first_matrix + run.n_matrices) {
                ++run.n_matrices;
            }
            BALLAST_TRY_STATUS(load_slice(number, run, to + n * each));
            n += run.n_matrices;
        }
    }
    loaded_[place(number)] = *last_copy_;
    n_loaded_ = number + 1;
    return {};
}

Status WeightRing::load_slice(std::size_t number, const WeightSlice& slice, std::byte* to) {
    const backend::WeightView& tensor = tensors_[static_cast<std::size_t>(slice.unit)];
    const backend::Strips strips = packing_strips(tensor, slice);
    const std::byte* const from = view_in_place(tensor, slice).data;
    // All that the last copy stands behind has been put on its queue.
    BALLAST_TRY_STATUS(backend::put_or_wait(backend_, last_copy_, [&] {
        return backend_.copy_strips_in(backend::Queue::kCopy, to, from, strips);
    }));
    note(number, strips.total_bytes());
    return {};
}

void WeightRing::note(std::size_t number, std::size_t bytes) {
    const StepTile& tile = program_->tiles[number];
    log_.stats().count(TransferDirection::kIn,
                       kind_ == StepKind::kDecode ? TransferReason::kDecodeWeights
                                                  : TransferReason::kPrefillWeights,
                       bytes);
    log_.put({.lane = Lane::kCopy,
              .first_group = tile.group,
              .share = static_cast<double>(tile.parts.n) / tile.n_parts,
              .bytes = bytes,
              .tile = static_cast<int>(number)},
             *last_copy_);
}

backend::Event WeightRing::order_after(int tile) {
    const backend::Event loaded = loaded_[place(static_cast<std::size_t>(tile))];
    backend_.order_after(backend::Queue::kCompute, loaded);
    return loaded;
}

Status WeightRing::free(int /*tile*/, backend::Event reader) {
    ++n_free_;
    if (n_loaded_ == n_tiles_) {
        return {};
    }
    // Tiles are read in the order in which they cross, so that this one's place is the next's.
    backend_.order_after(backend::Queue::kCopy, reader);
    return load(n_loaded_);
}

Status WeightRing::free_before(std::size_t tile) {
    for (; n_free_ < tile; ++n_free_) {
        if (n_loaded_ < n_tiles_) {
            BALLAST_TRY_STATUS(load(n_loaded_));
        }
    }
    return {};
}

}  // namespace ballast::runtime
