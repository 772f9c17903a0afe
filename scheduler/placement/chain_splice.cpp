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

/// What a chain takes, by layer, so that a splice's memory is known before it is made.
struct LayerUse {
    double memory = 0.0;
    double piece = 0.0;
};

std::vector<LayerUse> use_by_layer(const OptionTable& table, const Choice& choice) {
    const TensorCatalog& catalog = table.model().catalog();
    std::vector<LayerUse> layers(static_cast<std::size_t>(catalog.n_layers) + 1);
    for (std::size_t i = 0; i < choice.size(); ++i) {
        const Option& option = table.option(i, choice[i]);
        LayerUse& use =
            layers[static_cast<std::size_t>(layer_of(catalog.groups[i], catalog.n_layers))];
        use.memory += option.memory;
        use.piece = std::max(use.piece, option.piece);
    }
    return layers;
}

/// As memory_of() a splice: bytes are whole numbers, so that their order does not matter.
double memory_of_splice(const std::vector<LayerUse>& a,
                        const std::vector<LayerUse>& b,
                        Order order,
                        int n) {
    LayerUse sum;
    for (std::size_t layer = 0; layer < a.size(); ++layer) {
        const bool first = is_first(order, static_cast<int>(layer), n, static_cast<int>(a.size()));
        const LayerUse& use = first ? a[layer] : b[layer];
        sum.memory += use.memory;
        sum.piece = std::max(sum.piece, use.piece);
    }
    return sum.memory + ring_bytes(sum.piece);
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
    std::vector<std::vector<LayerUse>> uses;
    uses.reserve(chains.size());
    std::vector<bool> fits;
    for (const Choice& chain : chains) {
        uses.push_back(use_by_layer(table, chain));
        fits.push_back(memory_of(table, chain) <= memory_limit);
    }
    const int n_layers = table.model().catalog().n_layers + 1;
    std::vector<Choice> choices;
    for (std::size_t a = 0; a < chains.size(); ++a) {
        if (fits[a]) {
            choices.push_back(chains[a]);
            continue;
        }
        for (std::size_t b = 0; b < chains.size(); ++b) {
            if (!fits[b]) {
                continue;
            }
            for (const Order order : {Order::kFirst, Order::kLast, Order::kInTurn}) {
                // The most layers of the larger chain that fit; memory grows with their number.
                int low = 0;
                int high = n_layers;
                while (high - low > 1) {
                    const int middle = (low + high) / 2;
                    const double memory = memory_of_splice(uses[a], uses[b], order, middle);
                    (memory <= memory_limit ? low : high) = middle;
                }
                if (low > 0) {  // else it is the smaller chain, which has its own turn
                    choices.push_back(spliced(table, chains[a], chains[b], order, low));
                }
            }
        }
    }
    return choices;
}

}  // namespace ballast::scheduler
