// SPDX-License-Identifier: MIT
// Which routed experts of a layer are kept on the device: those used last, or those used most.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/load/decayed_counts.h"

namespace ballast::scheduler {

enum class SlotRule {
    kRecent,    // the one that was not used for longest makes room
    kFrequent,  // the one that was used least lately does
};

/// The slots of one layer. An expert that misses is computed on the CPU; whether it then takes a
/// slot is what this decides, so that a slot changes its expert only where that is expected to pay.
class ExpertSlots {
  public:
    struct Options {
        SlotRule rule = SlotRule::kFrequent;
        /// Tokens after which a use counts half, under kFrequent.
        double half_life_tokens = 256.0;
        /// A newcomer must be asked for this many times as often as the one that leaves, under
        /// kFrequent: a move costs link time.
        double advantage = 1.5;
    };
    struct Move {
        int expert = 0;
        int slot = 0;
        std::optional<int> evicted = {};  // the expert that was there
        double gain = 0.0;                // how much more the one is wanted than the other, above 0
        std::uint64_t number = 0;         // which move it is of this layer's

        friend bool operator==(const Move&, const Move&) = default;
    };

    ExpertSlots(int n_experts, int n_slots, const Options& options);

    /// A step of so many tokens, of which uses[expert] used each.
    void count(std::span<const std::uint32_t> uses, std::int64_t n_tokens);
    /// The expert without a slot that is wanted most, into the slot whose expert is wanted least;
    /// nothing where that does not pay.
    std::optional<Move> best_move() const;

    /// At the start: the expert is in the slot already, and neither was before.
    void put(int expert, int slot);

    // A move changes nothing before it has begun; then its slot holds no expert until the copy is
    // placed, or dropped. What resize() has taken the slot from may still end either way.
    void begin(const Move& move);
    /// False: the slot is gone.
    bool placed(const Move& move);
    void dropped(const Move& move);

    /// There are fewer or more slots; those beyond the new number are dropped.
    void resize(int n_slots);

    std::optional<int> slot_of(int expert) const;
    /// −1: none, or one is on its way.
    int expert_in(int slot) const { return places_[static_cast<std::size_t>(slot)].expert; }
    /// The same for all experts; −1: none. The memory stays where it is.
    std::span<const int> slots() const { return slot_; }
    int n_slots() const { return static_cast<int>(places_.size()); }
    /// Uses of experts that had a slot when they were counted, and of the others.
    std::uint64_t hits() const { return hits_; }
    std::uint64_t misses() const { return misses_; }

  private:
    struct Place {
        int expert = -1;  // −1: none, or one is on its way
        int coming = -1;
        std::uint64_t move = 0;  // that brings it
    };
    /// How much an expert is wanted now: the larger, the more; 0 or below: not at all.
    double score(int expert) const;
    bool is_coming(const Move& move) const;

    Options options_;
    DecayedCounts weight_;                // by expert
    std::vector<std::uint64_t> used_at_;  // by expert: the token's number, from 1
    std::vector<int> slot_;               // by expert; −1: none
    std::vector<bool> coming_;            // by expert
    std::vector<Place> places_;           // by slot
    std::uint64_t token_ = 0;
    std::uint64_t n_begun_ = 0;
    std::uint64_t hits_ = 0;
    std::uint64_t misses_ = 0;
};

}  // namespace ballast::scheduler
