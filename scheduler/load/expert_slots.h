// SPDX-License-Identifier: MIT
// Which routed experts of a layer are kept on the device: those used last, or those used most.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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
    };

    ExpertSlots(int n_experts, int n_slots, const Options& options);

    /// The experts that one token uses. Each counts as used; of those without a slot at most
    /// `moves_max` are proposed for one, in the order given. Nothing changes until placed().
    std::vector<Move> use(std::span<const int> experts, std::size_t moves_max);
    /// The move has happened.
    void placed(const Move& move);
    /// There are fewer or more slots; those beyond the new number are dropped.
    void resize(int n_slots);

    std::optional<int> slot_of(int expert) const;
    int n_slots() const { return static_cast<int>(expert_in_.size()); }
    std::uint64_t hits() const { return hits_; }
    std::uint64_t misses() const { return misses_; }

  private:
    /// How much an expert is wanted now: the larger, the more.
    double score(int expert) const;

    Options options_;
    double decay_ = 1.0;          // a token
    std::vector<double> weight_;  // by expert, as of the token used_at_
    std::vector<std::uint64_t> used_at_;
    std::vector<int> slot_;       // by expert; −1: none
    std::vector<int> expert_in_;  // by slot; −1: free
    std::uint64_t token_ = 0;
    std::uint64_t hits_ = 0;
    std::uint64_t misses_ = 0;
};

}  // namespace ballast::scheduler
