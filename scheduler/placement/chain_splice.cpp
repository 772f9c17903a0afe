// SPDX-License-Identifier: MIT
// Plans between the chains that meet at the best prices.
#include <algorithm>
#include <cmath>

#include "scheduler/placement/layer_mix.h"

namespace ballast::scheduler {

namespace {

// How far from the best prices the chains on their sides are looked for.
constexpr std::array<double, 3> kSteps = {0.97, 1.0, 1.03};

/// The head counts as one more layer.
int layer_of(const TensorGroup& group, int n_layers) {
    return group.layer < 0 ? n_layers : std::min(group.layer, n_layers);
}

Choice spliced(const OptionTable& table, const Choice& a, const Choice& b, Order order, int n) {
    const TensorCatalog& catalog = table.model().catalog();
    Choice choice(b);
    for (std::size_t i = 0; i < choice.size(); ++i) {
        const int layer = layer_of(catalog.groups[i], catalog.n_layers);
        if (is_first(order, layer, n, catalog.n_layers + 1)) {
            choice[i] = a[i];
        }
    }
    return choice;
}

}  // namespace

std::vector<Choice> splice_chains(const OptionTable& table,
                                  PriceDual& dual,
                                  const PriceDual::Bound& bound,
                                  double memory_limit) {
    std::vector<Choice> chains;
    for (const double memory : kSteps) {
        for (const double link : kSteps) {
            const Prices prices = {.memory = bound.prices.memory * memory,
                                   .link = std::min(bound.prices.link * link, 1.0)};
            Choice chain = dual.cheapest_choice(prices, bound.piece_limit);
            if (std::find(chains.begin(), chains.end(), chain) == chains.end()) {
                chains.push_back(std::move(chain));
            }
        }
    }
    const int n_layers = table.model().catalog().n_layers + 1;
    std::vector<Choice> choices;
    for (const Choice& a : chains) {
        if (memory_of(table, a) <= memory_limit) {
            choices.push_back(a);
            continue;
        }
        for (const Choice& b : chains) {
            if (memory_of(table, b) > memory_limit) {
                continue;
            }
            for (const Order order : {Order::kFirst, Order::kLast, Order::kInTurn}) {
                // The most layers of the larger chain that fit; memory grows with their number.
                int low = 0;
                int high = n_layers;
                while (high - low > 1) {
                    const int middle = (low + high) / 2;
                    const Choice tried = spliced(table, a, b, order, middle);
                    (memory_of(table, tried) <= memory_limit ? low : high) = middle;
                }
                choices.push_back(spliced(table, a, b, order, low));
            }
        }
    }
    return choices;
}

}  // namespace ballast::scheduler
