// SPDX-License-Identifier: MIT
// How fast any plan of an option table can be at best: prices on device memory and on the link turn
// a plan's constraints into costs, and the best prices give a bound (Lagrange's dual).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "scheduler/placement/option_table.h"

namespace ballast::scheduler {

struct Prices {
    double memory = 0.0;  // seconds a byte
    double link = 0.0;    // seconds a second of the link, 0 to 1
};

/// A step's sums along the cheapest chain at some prices.
struct ChainSums {
    double value = 0.0;  // priced: (1 − link price) · seconds + prices · use
    double seconds = 0.0;
    double memory = 0.0;
    double link_seconds = 0.0;

    /// Adds the sums of a part of the chain, but for its value, so many times.
    void add(const ChainSums& part, double times) {
        seconds += times * part.seconds;
        memory += times * part.memory;
        link_seconds += times * part.link_seconds;
    }
};

/// Borrows the table; keeps scratch memory, so one object is for one thread.
class PriceDual {
  public:
    explicit PriceDual(const OptionTable& table);

    struct Bound {
        double seconds = 0.0;  // no plan within the limits takes less
        Prices prices = {};
        double piece_limit = 0.0;
    };
    /// Device memory without the ring, in bytes, and the largest piece an option may send. The
    /// link's time adds up over the whole step, so that waits inside it are not in the bound.
    /// `start`: prices of a similar problem, or zeros.
    Bound solve(double memory_limit, double piece_limit, const Prices& start);

    /// The cheapest chain at these prices. Options that send more than the limit are left out.
    ChainSums cheapest(const Prices& prices, double piece_limit);
    /// The same, with the option of each group.
    std::vector<int> cheapest_choice(const Prices& prices, double piece_limit);

    /// Adds a cost in seconds to each option, by type and index; empty for none.
    void set_extra(std::vector<std::vector<double>> extra) { extra_ = std::move(extra); }

    /// How many chains were run since construction.
    int n_chains() const { return n_chains_; }

  private:
    using Values = std::array<double, kLeads>;  // by lead
    /// An option and what it costs beside time.
    struct Priced {
        const Option* option = nullptr;
        double use = 0.0;
    };
    /// One step of a chain: to which lead, for how much.
    struct Arc {
        double value = 0.0;
        const Option* option = nullptr;
        std::uint8_t after = 0;
    };
    /// The cheapest option of a type from each lead to each lead. Made for a lead when a chain gets
    /// there: few do.
    struct Arcs {
        std::vector<Priced> cheapest;  // one a shape
        std::array<std::array<Arc, kLeads>, kLeads> from;
        std::array<std::int8_t, kLeads> number;  // −1: not made
    };
    void set_prices(const Prices& prices, double piece_limit);
    std::span<const Arc> arcs(std::size_t type, std::size_t before);
    /// Makes infinite what is nowhere earlier than another lead's value.
    void drop_late(Values& values) const;
    /// Walks the cheapest chain from its end to its beginning, for its options too if there is a
    /// choice, of all groups, to fill in.
    ChainSums walk(const Prices& prices, double piece_limit, std::vector<int>* choice);
    /// Values after the group from those before it.
    void step(std::size_t group);
    /// Values after every group. Where they recur as the types do, but for a constant, those
    /// between are passed over.
    void reach_all();
    /// Groups passed over: from `begin` on, `times` periods that are like the one before `begin`.
    struct Skip {
        std::size_t begin = 0;
        std::size_t period = 0;
        std::size_t times = 0;
    };
    /// What values at `end` are above those one period before, if that is the same for all.
    std::optional<double> rise(std::size_t end, std::size_t period) const;
    /// The lead and the option by which the cheapest chain came to this lead after the group.
    std::pair<std::size_t, const Option*> arrival(std::size_t group, std::size_t lead);
    /// The dual at the best memory price for one price of the link, and its slope there: the use of
    /// the link less the time, in seconds, of the mix of chains that just fills the memory.
    struct Edge {
        Bound bound;
        double slope = 0.0;
    };
    Edge solve_memory(double memory_limit, double piece_limit, double link_price, double start);

    const OptionTable& table_;
    bool is_monotone_ = false;     // a group that starts no later ends no later, on either side
    std::vector<Arcs> arcs_;       // by type
    std::vector<Values> reached_;  // value of each lead before each group
    std::vector<Skip> skips_;      // in order
    double of_time_ = 1.0;         // what a second counts
    Values lead_ = {};             // priced
    std::vector<std::vector<double>> extra_;
    int n_chains_ = 0;
};

/// What each option of a decode table adds to prefill at least, in seconds: the least over the
/// prefill options with the same parts resident, at this price of the link in prefill. Sums of it
/// never exceed a prefill step that keeps the link's balance, because leads are counted by their
/// reduced costs. `prefill` has the same types.
std::vector<std::vector<double>> prefill_floor(const OptionTable& decode,
                                               const OptionTable& prefill,
                                               double link_price,
                                               double piece_limit);

/// Costs to add to the options in the case of pieces of at most this size.
using ExtraCosts = std::function<std::vector<std::vector<double>>(double piece_limit)>;

/// The least over the sizes that the ring may have: a plan whose largest piece is p pays a ring of
/// 4 · min(p, 32 MiB) bytes. Also the prices of the case that gave it.
/// `start`: the bound of a similar problem.
PriceDual::Bound bound_with_ring(PriceDual& dual,
                                 double memory_limit,
                                 const PriceDual::Bound& start,
                                 const ExtraCosts& extra = {});

}  // namespace ballast::scheduler
