// SPDX-License-Identifier: MIT
// Tile after tile over a rate that changes when the CPU starts and stops.
#include "scheduler/placement/copy_lane.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ballast::scheduler {

namespace {

// A group of more than 128 GiB is not worth looking at in more detail: files may claim any size.
constexpr double kTilesMax = 4096;
// Shares of bytes that are whole tiles may come out a little above by rounding.
constexpr double kByteRounding = 0.5;

}  // namespace

void CopyLane::cpu_works(double begin, double end, double lane_bps) {
    busy_.push_back({.begin = begin, .end = end, .bps = lane_bps});
}

void CopyLane::hold_until(double time) {
    free_ = std::max(free_, time);
}

double CopyLane::cross(double begin, double bytes) {
    double now = begin;
    double left = bytes;
    while (first_busy_ < busy_.size() && busy_[first_busy_].end <= now) {
        ++first_busy_;
    }
    for (std::size_t i = first_busy_;; ++i) {
        const bool any = i < busy_.size();
        const double idle_until = any ? busy_[i].begin : std::numeric_limits<double>::infinity();
        if (now < idle_until) {
            if (left <= (idle_until - now) * link_bps_) {
                return now + left / link_bps_;
            }
            left -= (idle_until - now) * link_bps_;
            now = idle_until;
        }
        if (left <= (busy_[i].end - now) * busy_[i].bps) {
            return now + left / busy_[i].bps;
        }
        left -= (busy_[i].end - now) * busy_[i].bps;
        now = busy_[i].end;
    }
}

double CopyLane::stream(double bytes, double seconds, double ready) {
    const double tiles = std::ceil((bytes - kByteRounding) / static_cast<double>(kTileBytesMax));
    const int n_tiles = static_cast<int>(std::clamp(tiles, 1.0, kTilesMax));
    const double tile_bytes = bytes / n_tiles;
    const double tile_seconds = seconds / n_tiles;
    double device = ready;
    for (int i = 0; i < n_tiles; ++i) {
        free_ = cross(std::max(free_, read_[slot_]), tile_bytes);
        device = std::max(device, free_) + tile_seconds;
        read_[slot_] = device;
        slot_ = (slot_ + 1) % kRingTiles;
    }
    return device;
}

}  // namespace ballast::scheduler
