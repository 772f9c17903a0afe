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
#include "engine/runtime/lane_log.h"
#include "engine/runtime/step_program.h"
#include "scheduler/placement/placement.h"

namespace ballast::runtime {

constexpr std::size_t kTiles = scheduler::kRingTiles;

/// Engine thread; the backend and the log outlive it.
class WeightRing {
  public:
    WeightRing(backend::Backend& backend, LaneLog& log) : backend_(backend), log_(log) {}
    ~WeightRing();
    WeightRing(const WeightRing&) = delete;
    WeightRing& operator=(const WeightRing&) = delete;

    /// Takes memory for the tiles of all programs. kOutOfMemory. There is
    /// none before.
    Status reserve(std::span<const StepProgram* const> programs);
    /// What that would take in all.
    static std::uint64_t bytes_for(std::span<const StepProgram* const> programs);
    /// Whether what was taken is enough for these.
    bool fits(std::span<const StepProgram* const> programs) const;
    /// Gives it back, when nothing crosses into it any more.
    void release();
    /// Where a tile lies while it is used.
    std::byte* tile(std::size_t number) const { return places_[number % kTiles].data; }
    std::uint64_t total_bytes() const;

    /// A step of this program and kind begins: its first tiles are on their way. The model's
    /// tensors stay mapped. Errors of Backend::copy_strips_in().
    Status begin(const StepProgram& program,
                 StepKind kind,
                 std::span<const backend::WeightView> tensors);
    /// What is put on the compute queue next waits for the tile. Returns its last copy.
    backend::Event order_after(int tile);
    /// `reader` is the last event that reads the tile: then the next one may cross.
    Status free(int tile, backend::Event reader);
    /// The last copy, if there was one in this step.
    std::optional<backend::Event> last_copy() const { return last_copy_; }

  private:
    using Sizes = std::array<std::size_t, kTiles>;
    static Sizes sizes_for(std::span<const StepProgram* const> programs);
    Status load(std::size_t number);
    /// The last copy was one of this tile.
    void note(const StepTile& tile, std::size_t bytes);

    backend::Backend& backend_;
    LaneLog& log_;
    std::array<backend::Chunk, kTiles> places_ = {};
    const StepProgram* program_ = nullptr;
    StepKind kind_ = StepKind::kDecode;
    std::span<const backend::WeightView> tensors_ = {};
    std::size_t n_loaded_ = 0;  // of this step
    std::array<backend::Event, kTiles> loaded_ = {};
    std::optional<backend::Event> last_copy_ = {};
};

}  // namespace ballast::runtime
