// SPDX-License-Identifier: MIT
// The ring through which weights cross in each step: a few tiles of device memory, each filled anew
// as soon as the ops that read it are done, while the device computes on another.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/result.h"
#include "engine/runtime/expert_places.h"
#include "engine/runtime/lane_log.h"
#include "engine/runtime/step_program.h"
#include "scheduler/placement/placement.h"

namespace ballast::runtime {

constexpr std::size_t kTiles = scheduler::kRingTiles;

/// Some of a ring's places.
struct PlaceRange {
    std::size_t first = 0;
    std::size_t n = kTiles;
};

/// Engine thread; the backend and the log outlive it.
class WeightRing {
  public:
    WeightRing(backend::Backend& backend, LaneLog& log) : backend_(backend), log_(log) {}
    /// A ring of some places of `owner`, which outlives it and has its memory: where two programs
    /// stream in turn, neither loses what has crossed for it.
    WeightRing(const WeightRing& owner, PlaceRange places);
    ~WeightRing();
    WeightRing(const WeightRing&) = delete;
    WeightRing& operator=(const WeightRing&) = delete;

    /// Takes memory for the tiles of all programs; `halves`: each may have half of the places, so
    /// that any tile fits into each, if all have tiles. There is none before. kOutOfMemory.
    Status reserve(std::span<const StepProgram* const> programs, bool halves = false);
    /// What that would take in all.
    static std::uint64_t bytes_for(std::span<const StepProgram* const> programs, bool halves);
    /// Whether what was taken is enough for these.
    bool fits(std::span<const StepProgram* const> programs, bool halves = false) const;
    /// Gives it back, when nothing crosses into it any more.
    void release();
    /// Where a tile lies while it is used.
    std::byte* tile(std::size_t number) const { return places_[place(number)].data; }
    std::uint64_t total_bytes() const;
    std::size_t n_places() const { return n_places_; }

    /// Which experts the tiles' parts are; they stay so during a step. Before: by their numbers.
    void follow(const ExpertPlaces& experts) { experts_ = &experts; }
    /// A step of this program and kind begins: its first tiles are on their way. The model's
    /// tensors stay mapped. Errors of Backend::copy_strips_in().
    Status begin(const StepProgram& program,
                 StepKind kind,
                 std::span<const backend::WeightView> tensors);
    /// What is put on the compute queue next waits for the tile. Returns its last copy.
    backend::Event order_after(int tile);
    /// `reader` is the last event that reads the tile: then the next one may cross.
    Status free(int tile, backend::Event reader);

    // Where all rows of a super-chunk read a tile before the next one crosses into its place.

    /// begin() for the first n tiles alone.
    Status begin(const StepProgram& program,
                 StepKind kind,
                 std::span<const backend::WeightView> tensors,
                 std::size_t n_tiles);
    /// Nobody reads the tiles before this one any more: what is put next may cross in their place.
    Status free_before(std::size_t tile);
    /// Tiles from this one on cross again, in places that nobody reads.
    Status restart(std::size_t tile);

    /// The last copy, if there was one in this step.
    std::optional<backend::Event> last_copy() const { return last_copy_; }

  private:
    using Sizes = std::array<std::size_t, kTiles>;
    static Sizes sizes_for(std::span<const StepProgram* const> programs, bool halves);
    std::size_t place(std::size_t tile) const { return tile % n_places_; }
    Status load(std::size_t number);
    /// Copies these of the tile to that place.
    Status load_slice(std::size_t number, const WeightSlice& slice, std::byte* to);
    /// The last copy was one of this tile.
    void note(std::size_t number, std::size_t bytes);

    backend::Backend& backend_;
    LaneLog& log_;
    const bool owns_places_ = true;
    const std::size_t n_places_ = kTiles;
    std::array<backend::Chunk, kTiles> places_ = {};
    const StepProgram* program_ = nullptr;
    StepKind kind_ = StepKind::kDecode;
    std::span<const backend::WeightView> tensors_ = {};
    std::size_t n_tiles_ = 0;                // of this step
    std::size_t n_loaded_ = 0;               // of them
    std::size_t n_free_ = 0;                 // of them
    const ExpertPlaces* experts_ = nullptr;  // null: each is the part of its number
    std::array<backend::Event, kTiles> loaded_ = {};
    std::optional<backend::Event> last_copy_ = {};
};

}  // namespace ballast::runtime
