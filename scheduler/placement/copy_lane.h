// SPDX-License-Identifier: MIT
// The lane that copies weights to the device: in order, through a ring of tiles, slowed while the
// CPU reads.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "scheduler/placement/placement.h"

namespace ballast::scheduler {

/// Simulated time, forwards only. docs/scheduling.md, "Streaming".
class CopyLane {
  public:
    explicit CopyLane(double link_bps) : link_bps_(link_bps) {}

    /// Makes room for so many stretches of work.
    void reserve(std::size_t stretches) { busy_.reserve(stretches); }
    /// The CPU works from `begin` to `end`, which leaves this much of the link. In order of time.
    void cpu_works(double begin, double end, double lane_bps);
    /// Nothing is copied before this time.
    void hold_until(double time);
    /// A group streams `bytes`, for which the device computes `seconds` from `ready` on, each tile
    /// as soon as it is there. Returns when the device has finished.
    double stream(double bytes, double seconds, double ready);

  private:
    struct Interval {
        double begin = 0.0;
        double end = 0.0;
        double bps = 0.0;
    };
    /// When `bytes` have crossed that start at `begin`; later calls start no earlier.
    double cross(double begin, double bytes);

    double link_bps_;
    double free_ = 0.0;                         // the last tile has crossed
    std::array<double, kRingTiles> read_ = {};  // when the reader of each slot has finished
    std::size_t slot_ = 0;
    std::vector<Interval> busy_;  // of the CPU, in order
    std::size_t first_busy_ = 0;  // those before have ended
};

}  // namespace ballast::scheduler
