// SPDX-License-Identifier: MIT
// The best move of each layer, and the best of those.
#include "scheduler/load/expert_moves.h"

#include <algorithm>

#include "engine/base/check.h"

namespace ballast::scheduler {

ExpertMoves::ExpertMoves(std::span<const ExpertLayer> layers, const Options& options)
    : options_(options) {
    slots_.reserve(layers.size());
    for (const ExpertLayer& layer : layers) {
        BALLAST_CHECK(layer.n_slots == 0 || layer.expert_bytes > 0);
        slots_.emplace_back(layer.n_experts, layer.n_slots, options.slots);
        expert_bytes_.push_back(layer.expert_bytes);
        largest_ = std::max(largest_, layer.expert_bytes);
    }
}

void ExpertMoves::count(int layer, std::span<const std::uint32_t> uses, std::int64_t n_tokens) {
    slots_of(layer).count(uses, n_tokens);
}

void ExpertMoves::allow(std::uint64_t bytes) {
    const std::uint64_t kept = std::min(allowed_, largest_);
    const std::uint64_t most = std::max(bytes, largest_);
    allowed_ = bytes < most - kept ? kept + bytes : most;  // any number may be given
}

std::optional<ExpertMoves::Move> ExpertMoves::next() {
    if (n_in_flight_ >= options_.in_flight_max) {
        return std::nullopt;
    }
    std::optional<Move> best;
    double most = 0.0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const auto move = slots_[i].best_move();
        if (!move) {
            continue;
        }
        const double gain = move->gain / static_cast<double>(expert_bytes_[i]);
        if (gain > most) {
            most = gain;
            best = {.layer = static_cast<int>(i), .of = *move, .bytes = expert_bytes_[i]};
        }
    }
    // A smaller one does not go before it: the large would never have its turn.
    if (!best || best->bytes > allowed_) {
        return std::nullopt;
    }
    allowed_ -= best->bytes;
    slots_of(best->layer).begin(best->of);
    ++n_in_flight_;
    return best;
}

void ExpertMoves::end(const Move& move, bool placed) {
    BALLAST_CHECK(n_in_flight_ > 0);
    --n_in_flight_;
    if (placed) {
        n_placed_ += slots_of(move.layer).placed(move.of) ? 1 : 0;
    } else {
        slots_of(move.layer).dropped(move.of);
    }
}

}  // namespace ballast::scheduler
