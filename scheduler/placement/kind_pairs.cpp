// SPDX-License-Identifier: MIT
// Prices rule out most pairs; the rest are estimated.
#include "scheduler/placement/kind_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace ballast::scheduler {

namespace {

constexpr double kRounding = 1e-9;  // of an estimate

/// Of equal ones the first, whatever the order in which they are found.
bool is_better(const Mix& x, const Mix& y) {
    return std::tie(x.estimate, x.head_rank, x.a, x.b) <
           std::tie(y.estimate, y.head_rank, y.a, y.b);
}

/// The best mixes so far, as a heap with the worst of them on top.
class BestMixes {
  public:
    explicit BestMixes(std::size_t most) : most_(most) { mixes_.reserve(most + 1); }

    /// Estimates above it are of no use.
    double limit() const {
        if (mixes_.size() < most_) {
            return std::numeric_limits<double>::infinity();
        }
        return mixes_.front().estimate;
    }

    void add(const Mix& mix) {
        if (mixes_.size() == most_) {
            if (!is_better(mix, mixes_.front())) {
                return;
            }
            std::pop_heap(mixes_.begin(), mixes_.end(), is_better);
            mixes_.pop_back();
        }
        mixes_.push_back(mix);
        std::push_heap(mixes_.begin(), mixes_.end(), is_better);
    }

    std::vector<Mix> sorted() {
        std::sort(mixes_.begin(), mixes_.end(), is_better);
        return std::move(mixes_);
    }

  private:
    std::size_t most_;
    std::vector<Mix> mixes_;
};

/// A kind, and what a plan of it alone takes at least at the prices.
struct Priced {
    double least = 0.0;
    std::size_t kind = 0;
    bool fits = false;  // alone, without which it cannot be the smaller of two

    friend bool operator<(const Priced& x, const Priced& y) {
        return std::tie(x.least, x.kind) < std::tie(y.least, y.kind);
    }
};

/// A mix of two kinds is estimated between what they take at the prices, or higher: memory that it
/// leaves free only lowers what it seems to take.
std::vector<Priced> by_price(const PairSearch& search, const HeadOption& head) {
    const double end = *std::min_element(head.end_seconds.begin(), head.end_seconds.end());
    const double of_time = 1.0 - search.prices.link;
    std::vector<Priced> ranked;
    ranked.reserve(search.kinds.size());
    for (std::size_t i = 0; i < search.kinds.size(); ++i) {
        const Kind& kind = search.kinds[i];
        const double room =
            search.memory_limit - head.memory - ring_bytes(std::max(kind.piece, head.piece));
        const double least = of_time * (kind.seconds + end) +
                             search.prices.link * (kind.link_seconds + head.link_seconds) +
                             kind.prefill + head.prefill +
                             search.prices.memory * (kind.memory - room);
        ranked.push_back(
            {.least = least - kRounding * std::abs(least), .kind = i, .fits = kind.memory <= room});
    }
    std::sort(ranked.begin(), ranked.end());
    return ranked;
}

/// The mix of both that fills the memory.
void pair(const PairSearch& search,
          std::size_t head_rank,
          std::size_t a,
          std::size_t b,
          BestMixes& best) {
    const HeadOption& head = search.heads[head_rank];
    const Kind& more = search.kinds[a];
    const Kind& less = search.kinds[b];
    const double end = head.end_seconds[more.lead];
    // A mix is no faster than the faster of its kinds.
    const double faster = std::min(more.seconds + more.prefill, less.seconds + less.prefill);
    if (faster + end > best.limit() || (a != b && more.memory <= less.memory)) {
        return;
    }
    const double piece = std::max({more.piece, less.piece, head.piece});
    const double room = search.memory_limit - head.memory - ring_bytes(piece) - less.memory;
    if (room < 0.0) {
        return;
    }
    const double share = a == b ? 1.0 : std::min(1.0, room / (more.memory - less.memory));
    const int n = static_cast<int>(share * search.n_layers);
    if (a != b && (n == 0 || n == search.n_layers)) {
        return;  // one kind alone is its own pair
    }
    const double of_a = static_cast<double>(n) / search.n_layers;
    const double layers = of_a * more.seconds + (1.0 - of_a) * less.seconds + end;
    const double link =
        of_a * more.link_seconds + (1.0 - of_a) * less.link_seconds + head.link_seconds;
    const double prefill = of_a * more.prefill + (1.0 - of_a) * less.prefill + head.prefill;
    const double estimate = std::max(layers, link) + prefill;
    if (estimate > best.limit()) {
        return;
    }
    best.add({.estimate = estimate,
              .head_rank = head_rank,
              .a = static_cast<int>(a),
              .b = static_cast<int>(b),
              .n = n,
              .head = head.index});
}

}  // namespace

std::vector<Mix> pair_kinds(const PairSearch& search) {
    BestMixes best(search.most);
    std::vector<std::pair<std::vector<Priced>, std::size_t>> heads;
    heads.reserve(search.heads.size());
    for (std::size_t head = 0; head < search.heads.size(); ++head) {
        heads.emplace_back(by_price(search, search.heads[head]), head);
    }
    // The cheapest first, so that the others have something to beat.
    std::sort(heads.begin(), heads.end());
    for (const auto& [ranked, head] : heads) {
        for (std::size_t i = 0; i < ranked.size() && ranked[i].least <= best.limit(); ++i) {
            for (std::size_t j = i; j < ranked.size(); ++j) {
                if (ranked[i].fits || ranked[j].fits) {
                    const auto [b, a] = std::minmax(ranked[i].kind, ranked[j].kind);
                    pair(search, head, a, b, best);
                }
            }
        }
    }
    return best.sorted();
}

}  // namespace ballast::scheduler
