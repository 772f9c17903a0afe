// SPDX-License-Identifier: MIT
// The most wanted without a slot against the least wanted with one.
#include "scheduler/load/expert_slots.h"

#include <limits>

#include "engine/base/check.h"

namespace ballast::scheduler {

ExpertSlots::ExpertSlots(int n_experts, int n_slots, const Options& options)
    : options_(options),
      weight_(static_cast<std::size_t>(n_experts), options.half_life_tokens),
      used_at_(static_cast<std::size_t>(n_experts), 0),
      slot_(static_cast<std::size_t>(n_experts), -1),
      coming_(static_cast<std::size_t>(n_experts), false),
      places_(static_cast<std::size_t>(n_slots)) {
    BALLAST_CHECK(n_slots <= n_experts);
}

double ExpertSlots::score(int expert) const {
    const auto i = static_cast<std::size_t>(expert);
    return options_.rule == SlotRule::kRecent ? static_cast<double>(used_at_[i]) : weight_.at(i);
}

void ExpertSlots::count(std::span<const std::uint32_t> uses, std::int64_t n_tokens) {
    BALLAST_CHECK(uses.size() == slot_.size() && n_tokens >= 0);
    token_ += static_cast<std::uint64_t>(n_tokens);
    weight_.advance(n_tokens);
    for (std::size_t i = 0; i < uses.size(); ++i) {
        if (uses[i] > 0) {
            weight_.add(i, uses[i]);
            used_at_[i] = token_;
            (slot_[i] >= 0 ? hits_ : misses_) += uses[i];
        }
    }
}

std::optional<ExpertSlots::Move> ExpertSlots::best_move() const {
    int newcomer = -1;
    double most = 0.0;
    for (std::size_t i = 0; i < slot_.size(); ++i) {
        const double wanted = score(static_cast<int>(i));
        if (slot_[i] < 0 && !coming_[i] && wanted > most) {
            most = wanted;
            newcomer = static_cast<int>(i);
        }
    }
    int slot = -1;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < places_.size(); ++i) {
        const Place& place = places_[i];
        const double wanted = place.expert < 0 ? -1.0 : score(place.expert);
        if (place.coming < 0 && wanted < least) {
            least = wanted;
            slot = static_cast<int>(i);
        }
    }
    if (newcomer < 0 || slot < 0) {
        return std::nullopt;
    }
    Move move{.expert = newcomer, .slot = slot, .gain = most, .number = n_begun_ + 1};
    if (const int there = places_[static_cast<std::size_t>(slot)].expert; there >= 0) {
        const double advantage = options_.rule == SlotRule::kFrequent ? options_.advantage : 1.0;
        move.evicted = there;
        move.gain = most - advantage * least;
    }
    return move.gain > 0.0 ? std::optional<Move>(move) : std::nullopt;
}

void ExpertSlots::put(int expert, int slot) {
    Place& place = places_[static_cast<std::size_t>(slot)];
    int& slot_of = slot_[static_cast<std::size_t>(expert)];
    BALLAST_CHECK(place.expert < 0 && place.coming < 0 && slot_of < 0);
    place.expert = expert;
    slot_of = slot;
}

void ExpertSlots::begin(const Move& move) {
    Place& place = places_[static_cast<std::size_t>(move.slot)];
    const auto expert = static_cast<std::size_t>(move.expert);
    BALLAST_CHECK(move.number == n_begun_ + 1 && place.coming < 0 && slot_[expert] < 0);
    ++n_begun_;
    if (place.expert >= 0) {
        slot_[static_cast<std::size_t>(place.expert)] = -1;
    }
    place = {.expert = -1, .coming = move.expert, .move = move.number};
    coming_[expert] = true;
}

bool ExpertSlots::is_coming(const Move& move) const {
    const auto slot = static_cast<std::size_t>(move.slot);
    return slot < places_.size() && places_[slot].coming >= 0 && places_[slot].move == move.number;
}

bool ExpertSlots::placed(const Move& move) {
    if (!is_coming(move)) {
        return false;
    }
    const auto expert = static_cast<std::size_t>(move.expert);
    places_[static_cast<std::size_t>(move.slot)] = {.expert = move.expert};
    slot_[expert] = move.slot;
    coming_[expert] = false;
    return true;
}

void ExpertSlots::dropped(const Move& move) {
    if (is_coming(move)) {
        places_[static_cast<std::size_t>(move.slot)] = {};
        coming_[static_cast<std::size_t>(move.expert)] = false;
    }
}

void ExpertSlots::resize(int n_slots) {
    const auto n = static_cast<std::size_t>(n_slots);
    BALLAST_CHECK(n <= slot_.size());
    for (std::size_t i = n; i < places_.size(); ++i) {
        const Place& place = places_[i];
        if (place.expert >= 0) {
            slot_[static_cast<std::size_t>(place.expert)] = -1;
        }
        if (place.coming >= 0) {
            coming_[static_cast<std::size_t>(place.coming)] = false;
        }
    }
    places_.resize(n);
}

std::optional<int> ExpertSlots::slot_of(int expert) const {
    const int slot = slot_[static_cast<std::size_t>(expert)];
    return slot < 0 ? std::nullopt : std::optional<int>(slot);
}

}  // namespace ballast::scheduler
