// SPDX-License-Identifier: MIT
// Sums over the hottest experts of each layer.
#include "engine/runtime/expert_counts.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "engine/base/check.h"

namespace ballast::runtime {

ExpertCounts::ExpertCounts(int n_layers, int n_experts, double half_life_tokens)
    : layers_(static_cast<std::size_t>(n_layers),
              Layer{{static_cast<std::size_t>(n_experts) + 1, half_life_tokens}}) {
    sorted_.reserve(static_cast<std::size_t>(n_experts));
}

void ExpertCounts::count(int layer,
                         std::span<const std::uint32_t> uses,
                         std::int64_t n_tokens,
                         std::span<const int> slots) {
    Layer& of = layers_[static_cast<std::size_t>(layer)];
    BALLAST_CHECK(uses.size() == of.hits_at() && (slots.empty() || slots.size() == uses.size()));
    of.uses.advance(n_tokens);
    for (std::size_t i = 0; i < uses.size(); ++i) {
        const bool hit = !slots.empty() && slots[i] >= 0;
        of.uses.add(i, uses[i]);
        (hit ? hits_ : misses_) += uses[i];
        if (hit) {
            of.uses.add(of.hits_at(), uses[i]);
        }
    }
}

double ExpertCounts::uses(int layer, int expert) const {
    return layers_[static_cast<std::size_t>(layer)].uses.at(static_cast<std::size_t>(expert));
}

ExpertSummary ExpertCounts::summary(int first_layer, int last_layer) {
    constexpr std::array<std::size_t, 3> kPercents = {10, 25, 50};
    std::array<double, 3> hottest = {};
    double hits = 0.0;
    double all = 0.0;
    for (int layer = first_layer; layer < last_layer; ++layer) {
        const Layer& of = layers_[static_cast<std::size_t>(layer)];
        sorted_.clear();
        for (std::size_t i = 0; i < of.hits_at(); ++i) {
            sorted_.push_back(of.uses.at(i));
        }
        std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
        for (std::size_t i = 0; i < kPercents.size(); ++i) {
            const std::size_t n = (sorted_.size() * kPercents[i] + 99) / 100;
            hottest[i] = std::accumulate(
                sorted_.begin(), sorted_.begin() + static_cast<std::ptrdiff_t>(n), hottest[i]);
        }
        all = std::accumulate(sorted_.begin(), sorted_.end(), all);
        hits += of.uses.at(of.hits_at());
    }
    if (all <= 0.0) {
        return {};
    }
    return {.hottest_10 = hottest[0] / all,
            .hottest_25 = hottest[1] / all,
            .hottest_50 = hottest[2] / all,
            .hit_rate = hits / all};
}

}  // namespace ballast::runtime
