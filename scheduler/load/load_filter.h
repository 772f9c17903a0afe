// SPDX-License-Identifier: MIT
// Makes sense of samples that are noisy, late or wrong.
#pragma once

#include <cstdint>

#include "scheduler/load/gpu_sample.h"

namespace ballast::scheduler {

/// What is left for Ballast, smoothed. Shares from 0 to 1.
struct LoadView {
    bool known = false;              // there was a sensible sample
    std::uint64_t others_bytes = 0;  // the latest sample's: memory is not smoothed
    std::uint64_t total_bytes = 0;   // 0: not known
    double device_share = 1.0;       // of the device's time
    double link_share = 1.0;
    double cpu_share = 1.0;
    /// The last good sample's, not smoothed.
    double device_latest = 1.0;
    double link_latest = 1.0;
    double cpu_latest = 1.0;
    bool on_battery = false;
};

/// The scheduler's thread. Shares change only by more than a threshold, so that noise makes no new
/// plan (research: an average with a half-life of 4 steps and a threshold of 5% to 10%).
class LoadFilter {
  public:
    struct Options {
        double half_life_samples = 4.0;
        /// Of a share that goes to and fro: that has turned twice, each time within so many
        /// samples. One pulse turns once, so that what comes after it is not slowed.
        double half_life_waves = 16.0;
        int turn_samples = 16;
        double threshold = 0.08;
        double share_least = 0.02;  // a share of nothing would make times infinite
    };

    LoadFilter() : LoadFilter(Options{}) {}
    explicit LoadFilter(const Options& options) : options_(options) {}

    /// Takes a sample in. One that is older than the last is dropped, and so are values that cannot
    /// be (not a number, outside of 0 to 1, others' bytes above the total): the last good one
    /// stays. Returns whether what view() says has changed.
    bool add(const LoadSample& sample);

    const LoadView& view() const { return view_; }
    /// Samples that were late, and values that could not be.
    std::uint64_t n_late() const { return n_late_; }
    std::uint64_t n_wrong() const { return n_wrong_; }

  private:
    struct Share {
        double average = 0.0;  // of what others take
        bool known = false;
        double side = 0.0;  // above 0: the last sample that was far from the average was above it
        int n_turns = 0;    // of that, each soon after the one before
        int since_turn = 0;
    };
    bool smooth(Share& share, double busy, double& left, double& latest);
    void note_turn(Share& share, double off) const;

    Options options_;
    LoadView view_;
    Share device_;
    Share link_;
    Share cpu_;
    Nanoseconds last_{0};
    std::uint64_t n_late_ = 0;
    std::uint64_t n_wrong_ = 0;
};

}  // namespace ballast::scheduler
