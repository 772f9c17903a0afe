// SPDX-License-Identifier: MIT
// Counts that fade, and the smallest of them.
#include "scheduler/load/expert_slots.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/check.h"

namespace ballast::scheduler {

ExpertSlots::ExpertSlots(int n_experts, int n_slots, const Options& options)
    : options_(options),
      decay_(std::exp2(-1.0 / options.half_life_tokens)),
      weight_(static_cast<std::size_t>(n_experts), 0.0),
      used_at_(static_cast<std::size_t>(n_experts), 0),
      slot_(static_cast<std::size_t>(n_experts), -1),
      expert_in_(static_cast<std::size_t>(n_slots), -1) {
    BALLAST_CHECK(n_slots <= n_experts && options.half_life_tokens > 0.0);
}

double ExpertSlots::score(int expert) const {
    const auto i = static_cast<std::size_t>(expert);
    if (options_.rule == SlotRule::kRecent) {
        return static_cast<double>(used_at_[i]);
    }
    return weight_[i] * std::pow(decay_, static_cast<double>(token_ - used_at_[i]));
}

std::vector<ExpertSlots::Move> ExpertSlots::use(std::span<const int> experts,
                                                std::size_t moves_max) {
    ++token_;
    for (const int expert : experts) {
        const auto i = static_cast<std::size_t>(expert);
        BALLAST_CHECK(i < slot_.size());
        weight_[i] = weight_[i] * std::pow(decay_, static_cast<double>(token_ - used_at_[i])) + 1.0;
        used_at_[i] = token_;
        ++(slot_[i] >= 0 ? hits_ : misses_);
    }
    std::vector<Move> moves;
    std::vector<bool> taken(expert_in_.size(), false);
    for (const int expert : experts) {
        if (moves.size() == moves_max || slot_[static_cast<std::size_t>(expert)] >= 0) {
            continue;
        }
        double least = std::numeric_limits<double>::infinity();
        std::size_t slot = expert_in_.size();
        for (std::size_t i = 0; i < expert_in_.size(); ++i) {
            const double of = expert_in_[i] < 0 ? -1.0 : score(expert_in_[i]);
            if (!taken[i] && of < least) {
                least = of;
                slot = i;
            }
        }
        const double needed =
            options_.rule == SlotRule::kFrequent ? options_.advantage * least : least;
        if (slot == expert_in_.size() || score(expert) <= needed) {
            continue;
        }
        taken[slot] = true;
        Move move{.expert = expert, .slot = static_cast<int>(slot)};
        if (expert_in_[slot] >= 0) {
            move.evicted = expert_in_[slot];
        }
        moves.push_back(move);
    }
    return moves;
}

void ExpertSlots::placed(const Move& move) {
    int& there = expert_in_[static_cast<std::size_t>(move.slot)];
    if (there >= 0) {
        slot_[static_cast<std::size_t>(there)] = -1;
    }
    int& slot = slot_[static_cast<std::size_t>(move.expert)];
    if (slot >= 0) {
        expert_in_[static_cast<std::size_t>(slot)] = -1;
    }
    there = move.expert;
    slot = move.slot;
}

void ExpertSlots::resize(int n_slots) {
    BALLAST_CHECK(static_cast<std::size_t>(n_slots) <= slot_.size());
    for (std::size_t i = static_cast<std::size_t>(n_slots); i < expert_in_.size(); ++i) {
        if (expert_in_[i] >= 0) {
            slot_[static_cast<std::size_t>(expert_in_[i])] = -1;
        }
    }
    expert_in_.resize(static_cast<std::size_t>(n_slots), -1);
}

std::optional<int> ExpertSlots::slot_of(int expert) const {
    const int slot = slot_[static_cast<std::size_t>(expert)];
    return slot < 0 ? std::nullopt : std::optional<int>(slot);
}

}  // namespace ballast::scheduler
