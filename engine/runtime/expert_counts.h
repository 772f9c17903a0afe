// SPDX-License-Identifier: MIT
// How often each expert of each layer is asked for, fading; what metrics say of it does not grow
// with the number of experts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/load/decayed_counts.h"

namespace ballast::runtime {

/// How unevenly experts are used, of a range of layers; all shares are 0 where nothing was used.
struct ExpertSummary {
    /// Share of the uses that the 10, 25 and 50 % of each layer's experts take that are used most
    /// (rounded up to whole experts). Even use gives 0.10, 0.25 and 0.50.
    double hottest_10 = 0.0;
    double hottest_25 = 0.0;
    double hottest_50 = 0.0;
    double hit_rate = 0.0;  // share of the uses whose expert was in a slot of the device
};

/// Owned by the engine thread. Layers without experts count nothing.
class ExpertCounts {
  public:
    /// Tokens after which a use counts half.
    static constexpr double kHalfLifeTokens = 4096.0;

    ExpertCounts(int n_layers, int n_experts, double half_life_tokens = kHalfLifeTokens);

    /// A step of so many tokens, of which uses[expert] used each. slots[expert] is −1 for those
    /// that were not on the device; empty: none was. Takes no memory.
    void count(int layer,
               std::span<const std::uint32_t> uses,
               std::int64_t n_tokens,
               std::span<const int> slots = {});

    /// Uses of one expert, as of now.
    double uses(int layer, int expert) const;
    /// Of layers [first, last). Sorts each layer's experts: for once a second, not once a step.
    /// Takes no memory.
    ExpertSummary summary(int first_layer, int last_layer);
    ExpertSummary summary() { return summary(0, static_cast<int>(layers_.size())); }
    /// Since the start, not faded.
    std::uint64_t hits() const { return hits_; }
    std::uint64_t misses() const { return misses_; }

  private:
    struct Layer {
        scheduler::DecayedCounts uses;  // by expert; behind them the hits
        std::size_t hits_at() const { return uses.size() - 1; }
    };
    std::vector<Layer> layers_;
    std::vector<double> sorted_;  // of one layer
    std::uint64_t hits_ = 0;
    std::uint64_t misses_ = 0;
};

}  // namespace ballast::runtime
