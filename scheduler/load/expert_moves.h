// SPDX-License-Identifier: MIT
// Which experts should be copied into which slots next, over all layers and within what the link
// has left: of the experts that miss only a share is fetched, the others are computed where they
// are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/load/expert_slots.h"

namespace ballast::scheduler {

/// Routed experts of one layer; n_experts is 0 where it has none.
struct ExpertLayer {
    int n_experts = 0;
    int n_slots = 0;
    std::uint64_t expert_bytes = 0;  // what has to cross for one
};

/// After each step: count() what each layer's router chose, allow() what may cross until the next
/// one, and take next() until there is nothing. Whoever copies says placed() or dropped() when the
/// copy has ended. slots() says between steps what the next step may use; it takes no memory after
/// construction but for more slots. One thread.
class ExpertMoves {
  public:
    struct Options {
        ExpertSlots::Options slots = {};
        int in_flight_max = 4;  // copies that have begun and not ended
    };
    struct Move {
        int layer = 0;
        ExpertSlots::Move of = {};
        std::uint64_t bytes = 0;
    };

    ExpertMoves(std::span<const ExpertLayer> layers, const Options& options);

    /// See ExpertSlots::put().
    void put(int layer, int expert, int slot) { slots_of(layer).put(expert, slot); }
    /// A step of so many tokens, of which uses[expert] used each.
    void count(int layer, std::span<const std::uint32_t> uses, std::int64_t n_tokens);
    /// So many more bytes may cross. What is not used is kept until it is enough for the next move,
    /// and no longer.
    void allow(std::uint64_t bytes);
    /// The move that gains most for its bytes, if they are allowed. It has begun: the expert that
    /// leaves has no slot from now on, and the one that comes has none before it is placed.
    std::optional<Move> next();
    void placed(const Move& move) { end(move, true); }
    void dropped(const Move& move) { end(move, false); }
    /// See ExpertSlots::resize().
    void resize(int layer, int n_slots) { slots_of(layer).resize(n_slots); }

    int n_layers() const { return static_cast<int>(slots_.size()); }
    const ExpertSlots& layer(int layer) const { return slots_[static_cast<std::size_t>(layer)]; }
    int n_in_flight() const { return n_in_flight_; }
    /// Moves placed since the start; what ballast_expert_moves_total says.
    std::uint64_t n_placed() const { return n_placed_; }

  private:
    ExpertSlots& slots_of(int layer) { return slots_[static_cast<std::size_t>(layer)]; }
    void end(const Move& move, bool placed);

    Options options_;
    std::vector<ExpertSlots> slots_;           // by layer
    std::vector<std::uint64_t> expert_bytes_;  // by layer
    std::uint64_t largest_ = 0;                // of those
    std::uint64_t allowed_ = 0;
    int n_in_flight_ = 0;
    std::uint64_t n_placed_ = 0;
};

}  // namespace ballast::scheduler
