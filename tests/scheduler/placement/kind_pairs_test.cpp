// SPDX-License-Identifier: MIT
// Pairs of kinds: what prices rule out is never among the best.
#include "scheduler/placement/kind_pairs.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace ballast::scheduler {
namespace {

constexpr double kLimit = 60.0;
constexpr int kLayers = 24;

class Draw {
  public:
    explicit Draw(std::uint32_t seed) : random_(seed) {}
    double number(double most) { return most * static_cast<double>(random_()) / 4294967296.0; }
    std::uint8_t lead() { return static_cast<std::uint8_t>(random_() % kLeads); }

  private:
    std::mt19937 random_;
};

struct Problem {
    std::vector<Kind> kinds;
    std::vector<HeadOption> heads;
};

Problem drawn(std::uint32_t seed) {
    Draw draw(seed);
    Problem problem;
    for (int i = 0; i < 40; ++i) {
        const double memory = draw.number(100.0);
        problem.kinds.push_back({.seconds = 10.0 - 0.05 * memory + draw.number(2.0),
                                 .memory = memory,
                                 .link_seconds = draw.number(8.0),
                                 .piece = i % 3 == 0 ? draw.number(4.0) : 0.0,
                                 .prefill = draw.number(1.0),
                                 .lead = draw.lead()});
    }
    std::sort(problem.kinds.begin(), problem.kinds.end(), [](const Kind& a, const Kind& b) {
        return a.memory < b.memory;
    });
    for (int i = 0; i < 3; ++i) {
        HeadOption head = {.index = i,
                           .memory = draw.number(20.0),
                           .link_seconds = draw.number(0.5),
                           .prefill = draw.number(0.1)};
        for (double& seconds : head.end_seconds) {
            seconds = draw.number(0.5);
        }
        problem.heads.push_back(head);
    }
    return problem;
}

/// Every pair with every head, one after the other.
std::vector<double> all_estimates(const Problem& problem) {
    std::vector<double> estimates;
    for (const HeadOption& head : problem.heads) {
        for (const Kind& more : problem.kinds) {
            for (const Kind& less : problem.kinds) {
                const bool alone = &more == &less;
                const double room = kLimit - head.memory - less.memory -
                                    ring_bytes(std::max({more.piece, less.piece, head.piece}));
                if (room < 0.0 || (!alone && more.memory <= less.memory)) {
                    continue;
                }
                const double share =
                    alone ? 1.0 : std::min(1.0, room / (more.memory - less.memory));
                const int n = static_cast<int>(share * kLayers);
                if (!alone && (n == 0 || n == kLayers)) {
                    continue;
                }
                const double of_more = static_cast<double>(n) / kLayers;
                const auto mean = [&](double Kind::*what) {
                    return of_more * more.*what + (1.0 - of_more) * less.*what;
                };
                const double end = head.end_seconds[more.lead];
                const double chain = mean(&Kind::seconds) + end;
                const double link = mean(&Kind::link_seconds) + head.link_seconds;
                estimates.push_back(std::max(chain, link) + mean(&Kind::prefill) + head.prefill);
            }
        }
    }
    std::sort(estimates.begin(), estimates.end());
    return estimates;
}

std::vector<double> estimates_of(const std::vector<Mix>& mixes) {
    std::vector<double> estimates;
    for (const Mix& mix : mixes) {
        estimates.push_back(mix.estimate);
    }
    return estimates;
}

TEST(PairKinds, FindsTheBestOfAllPairsAtAnyPrices) {
    constexpr std::size_t kMost = 12;
    for (std::uint32_t seed = 0; seed < 50; ++seed) {
        const Problem problem = drawn(seed);
        const std::vector<double> all = all_estimates(problem);
        const std::size_t n = std::min(kMost, all.size());
        for (const Prices& prices : {Prices{},
                                     Prices{.memory = 0.05, .link = 0.0},
                                     Prices{.memory = 0.05, .link = 0.4},
                                     Prices{.memory = 2.0, .link = 1.0}}) {
            const std::vector<double> found = estimates_of(pair_kinds({.kinds = problem.kinds,
                                                                       .heads = problem.heads,
                                                                       .n_layers = kLayers,
                                                                       .prices = prices,
                                                                       .memory_limit = kLimit,
                                                                       .most = kMost}));
            ASSERT_EQ(found.size(), n) << seed;
            for (std::size_t i = 0; i < n; ++i) {
                EXPECT_NEAR(found[i], all[i], 1e-9) << seed << " " << i;
            }
        }
    }
}

TEST(PairKinds, PairsNothingThatDoesNotFit) {
    const Problem problem = drawn(1);
    const std::vector<Mix> mixes = pair_kinds({.kinds = problem.kinds,
                                               .heads = problem.heads,
                                               .n_layers = kLayers,
                                               .memory_limit = 0.0,
                                               .most = 4});
    EXPECT_TRUE(mixes.empty());
}

}  // namespace
}  // namespace ballast::scheduler
