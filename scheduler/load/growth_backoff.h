// SPDX-License-Identifier: MIT
// When memory that came free may be filled again: the wait doubles after a growth that did not pay
// for itself before the pressure returned, and halves after one that did (ski rental with memory).
#pragma once

#include <cstdint>

#include "engine/base/clock.h"

namespace ballast::scheduler {

/// The scheduler's thread.
class GrowthBackoff {
  public:
    struct Options {
        Nanoseconds wait_least = std::chrono::milliseconds(500);
        Nanoseconds wait_most = std::chrono::seconds(60);
        /// Uploads stay at one budget per `refill` on average, two at once: a courtesy to the
        /// others' use of the link.
        Nanoseconds refill = std::chrono::seconds(10);
        double burst_budgets = 2.0;
    };

    GrowthBackoff() : GrowthBackoff(Options{}) {}
    explicit GrowthBackoff(const Options& options) : options_(options), wait_(options.wait_least) {}

    /// There is less room than before: the quiet is over, and what grew since the last time is
    /// judged by what it brought.
    void pressure();
    /// There is more room: the quiet begins anew, and nothing is judged.
    void relief(Nanoseconds now);
    /// There is as much room as before. Without it nothing is known to be quiet.
    void quiet(Nanoseconds now);

    /// Whether the wait is over.
    bool is_over(Nanoseconds now) const { return is_quiet_ && now - quiet_since_ >= wait_; }
    /// What the bucket has, of `wanted`, when a whole budget is `budget_bytes`, whether the wait is
    /// over or not.
    std::uint64_t affordable(Nanoseconds now, std::uint64_t wanted, std::uint64_t budget_bytes);
    /// So many bytes are on their way, which costs `cost_seconds` of work in all: what a stall and
    /// a slower CPU lose.
    void grew(Nanoseconds now,
              std::uint64_t bytes,
              std::uint64_t budget_bytes,
              double cost_seconds);
    /// Seconds of full-speed work that what grew has gained since the last call.
    void gained(double seconds) { gain_ += seconds; }

    Nanoseconds wait() const { return wait_; }

  private:
    void refill(Nanoseconds now);

    Options options_;
    Nanoseconds wait_;
    Nanoseconds quiet_since_{0};
    bool is_quiet_ = false;
    double tokens_ = 0.0;  // budgets; filled at the first look
    Nanoseconds filled_at_{0};
    bool filled_ = false;
    double gain_ = 0.0;
    double cost_ = 0.0;  // of what grew since the last pressure
};

}  // namespace ballast::scheduler
