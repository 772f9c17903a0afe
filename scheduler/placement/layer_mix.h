// SPDX-License-Identifier: MIT
// Plans of few kinds of layer. With two constraints a step's relaxed optimum needs at most three
// kinds, and layers are alike, so that the whole-number problem is how many layers of which kinds.
#pragma once

#include <memory>
#include <vector>

#include "scheduler/placement/option_table.h"
#include "scheduler/placement/price_dual.h"

namespace ballast::scheduler {

/// A plan under work: the index of the chosen option of each group.
using Choice = std::vector<int>;

/// Which layers are of the first of two kinds, if n of them are.
enum class Order { kFirst, kLast, kInTurn };
bool is_first(Order order, int layer, int n, int n_layers);

/// Device memory a choice takes with its ring, in bytes.
double memory_of(const OptionTable& table, const Choice& choice);

/// How thoroughly to look; the larger, the slower.
struct MixEffort {
    int kinds_tried = 20000;
    int kinds = 216;  // of which pairs are made
    int plans = 14;
    /// What a second of prefill counts beside one of decode.
    double prefill_weight = 0.0;
};

/// Finds kinds of layer that are good at given prices, then plans of two of them. Borrows the
/// table.
class LayerMixer {
  public:
    LayerMixer(const OptionTable& table, const Prices& prices, const MixEffort& effort);
    ~LayerMixer();
    LayerMixer(const LayerMixer&) = delete;
    LayerMixer& operator=(const LayerMixer&) = delete;

    /// Choices of at most n_mixes mixes that fit into the memory and should be fast, best first by
    /// an estimate; contiguous and evenly interleaved forms of each are both there. Replaying them
    /// decides. Any prices give the same mixes; those of this memory give them soonest.
    std::vector<Choice> plans(double memory_limit, int n_mixes, const Prices& prices) const;

  private:
    class Kinds;
    std::unique_ptr<Kinds> kinds_;
};

/// Choices that are one cheapest chain up to some layer and another from there on, or both in turn:
/// the chains on all sides of the best prices, of which some fit and some do not.
std::vector<Choice> splice_chains(const OptionTable& table,
                                  PriceDual& dual,
                                  const PriceDual::Bound& bound,
                                  double memory_limit);

}  // namespace ballast::scheduler
