// SPDX-License-Identifier: MIT
// Counts that fade: each halves every so many tokens.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/check.h"

namespace ballast::scheduler {

/// Instead of all counts shrinking with every token, what is added grows; now and then all are
/// brought back to one scale. So that a token costs what it counts, and no more.
class DecayedCounts {
  public:
    DecayedCounts(std::size_t n, double half_life_tokens)
        : half_life_tokens_(half_life_tokens), counts_(n, 0.0) {
        BALLAST_CHECK(half_life_tokens > 0.0);
    }

    /// So many tokens pass.
    void advance(std::int64_t n_tokens) {
        constexpr double kLargest = 0x1p200;
        constexpr double kForgotten = 200.0;  // half-lives after which nothing is left
        const double half_lives = static_cast<double>(n_tokens) / half_life_tokens_;
        const bool forget = half_lives > kForgotten;
        if (!forget) {
            one_ *= std::exp2(half_lives);
        }
        if (forget || one_ > kLargest) {
            for (double& count : counts_) {
                count = forget ? 0.0 : count / one_;
            }
            one_ = 1.0;
        }
    }
    void add(std::size_t i, double n) { counts_[i] += n * one_; }
    double at(std::size_t i) const { return counts_[i] / one_; }
    std::size_t size() const { return counts_.size(); }

  private:
    double half_life_tokens_;
    double one_ = 1.0;  // what one use now is worth
    std::vector<double> counts_;
};

}  // namespace ballast::scheduler
