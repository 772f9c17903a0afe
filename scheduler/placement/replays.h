// SPDX-License-Identifier: MIT
// What plans under work take, by the model of a step. Searches meet the same plans again and again,
// so that each is worked out once.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "scheduler/placement/cost_cache.h"
#include "scheduler/placement/layer_mix.h"
#include "scheduler/placement/option_table.h"
#include "scheduler/placement/prefill_streams.h"

namespace ballast::scheduler {

/// Of one model on one machine, with one amount of device memory at a time. Borrows what it is made
/// of.
class Replays {
  public:
    Replays(const OptionTable& decode,
            const StepModel& prefill,
            const KvReserve& reserve,
            const Ladder& ladder)
        : decode_(decode), prefill_(prefill), reserve_(reserve), ladder_(ladder), costs_(decode) {}

    /// Forgets what it knows of another amount of memory.
    void start(double memory_bytes);

    /// Seconds of a step of decode.
    double decode_seconds(const Choice& choice);
    /// Of a placement that need not be in the table. Few divisions occur in it, each many times.
    /// If what crosses the link takes `limit` already, it is not replayed, and takes no less than
    /// the result.
    double decode_seconds(const Placement& placement, double limit);
    /// The chain with leads rounded down, or the link's use if that is more: no replay takes less.
    double least_seconds(const Choice& choice) const;

    /// With what crosses the link in prefill. Stays where it is until the next start().
    const PrefillChoice& with_prefill(const Placement& placement);

  private:
    struct WithPrefill {
        Placement asked;
        PrefillChoice choice;
    };

    const OptionTable& decode_;
    const StepModel& prefill_;
    KvReserve reserve_;
    Ladder ladder_;
    double memory_bytes_ = 0.0;
    CostCache costs_;  // of divisions that need not be in the table
    std::vector<const ShareCost*> shares_;
    std::map<Choice, double> replayed_;
    std::deque<WithPrefill> with_prefills_;
};

}  // namespace ballast::scheduler
