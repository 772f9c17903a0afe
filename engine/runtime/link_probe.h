// SPDX-License-Identifier: MIT
// What a second device's link does, measured through the Backend interface alone: copies out of
// pinned memory and back, copies of ordinary pages through a small pinned buffer, copies beside the
// CPU's reads, and the way there and back for a few bytes.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/base/thread_pool.h"
#include "engine/runtime/probes.h"

namespace ballast::runtime {

/// The memory at both ends, shared by the probes: pinned host memory, taken piece by piece, and two
/// tiles on the device. Gives all back when the last copy has ended. The device outlives it.
class Link {
  public:
    static constexpr std::size_t kTileBytes = std::size_t{4} << 20U;
    static constexpr std::size_t kPieceBytes = std::size_t{16} << 20U;
    static constexpr std::size_t kTiles = 2;

    /// pinned_bytes: rounded up to pieces. Copies of one sample to the next walk through it.
    Link(backend::Backend& device, std::size_t pinned_bytes);
    ~Link();
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    /// Takes the device's part or one more piece. False once all are there. kOutOfMemory.
    Result<bool> grow();

    backend::Backend& device() { return device_; }
    std::size_t n_tiles() const { return pinned_.size() * (kPieceBytes / kTileBytes); }
    /// Pinned tile i, from 0 again after the last.
    std::span<std::byte> pinned_tile(std::size_t i) const;
    std::byte* device_tile(std::size_t i) const;

    /// Copies a tile in, or out where `back` is set; waits first where the queue is full.
    Result<backend::Event> copy(std::span<std::byte> host, std::size_t tile, bool back);
    Status wait(backend::Event event) { return device_.wait(event); }

    /// Bytes a second that pinned copies have reached last.
    double pace = 1e9;

  private:
    backend::Backend& device_;
    std::size_t n_pieces_ = 0;
    std::vector<backend::Chunk> pinned_;
    backend::Chunk on_device_ = {};
    std::optional<backend::Event> last_copy_;
};

/// Copies out of pinned memory one after another, or back into it.
class PinnedCopyProbe final : public Probe {
  public:
    PinnedCopyProbe(Link& link, bool back, const Clock& clock)
        : link_(link), back_(back), clock_(clock) {}
    Result<Sample> sample() override;

  private:
    Link& link_;
    const bool back_;
    const Clock& clock_;
    double pace_ = 1e9;  // bytes a second
    std::size_t cursor_ = 0;
};

/// As mapped weights are streamed: the caller copies a tile into one of two pinned ones while the
/// device copies the other in.
class StagedCopyProbe final : public Probe {
  public:
    StagedCopyProbe(Link& link, ProbeMemory& memory, const Clock& clock)
        : link_(link), memory_(memory), clock_(clock) {}
    Result<Sample> sample() override;

  private:
    Link& link_;
    ProbeMemory& memory_;
    const Clock& clock_;
    double pace_ = 1e9;  // bytes a second
    std::size_t cursor_ = 0;
};

/// Pinned copies while all threads of the pool read; bytes are those of both. They take about as
/// long alone, so that they meet for most of the time; what is left of the slower one makes the sum
/// a little too low, never too high.
class TogetherProbe final : public Probe {
  public:
    TogetherProbe(Link& link, ProbeMemory& memory, ThreadPool& pool, const Clock& clock)
        : link_(link), read_(memory, &pool, clock), clock_(clock) {}
    Result<Sample> sample() override;

  private:
    Link& link_;
    ReadProbe read_;
    const Clock& clock_;
    std::size_t cursor_ = 0;
};

/// A few bytes in, a small op on them, and out again. A sample's seconds are half of the median
/// trip's, and it has no bytes.
class HopProbe final : public Probe {
  public:
    HopProbe(Link& link, const Clock& clock) : link_(link), clock_(clock) {}
    Result<Sample> sample() override;

  private:
    static constexpr std::size_t kWidth = 64;
    Status make_trip();

    Link& link_;
    const Clock& clock_;
};

}  // namespace ballast::runtime
