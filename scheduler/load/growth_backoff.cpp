// SPDX-License-Identifier: MIT
// A wait that learns, and a bucket of budgets.
#include "scheduler/load/growth_backoff.h"

#include <algorithm>

namespace ballast::scheduler {

void GrowthBackoff::pressure() {
    if (cost_ > 0.0) {
        wait_ = gain_ < cost_ ? std::min(2 * wait_, options_.wait_most)
                              : std::max(wait_ / 2, options_.wait_least);
    }
    gain_ = 0.0;
    cost_ = 0.0;
    is_quiet_ = false;
}

void GrowthBackoff::relief(Nanoseconds now) {
    is_quiet_ = false;
    quiet(now);
}

void GrowthBackoff::quiet(Nanoseconds now) {
    if (!is_quiet_) {
        is_quiet_ = true;
        quiet_since_ = now;
    }
}

std::uint64_t GrowthBackoff::affordable(Nanoseconds now,
                                        std::uint64_t wanted,
                                        std::uint64_t budget_bytes) {
    refill(now);
    const double most = tokens_ * static_cast<double>(budget_bytes);
    return static_cast<double>(wanted) <= most ? wanted : static_cast<std::uint64_t>(most);
}

void GrowthBackoff::grew(Nanoseconds now,
                         std::uint64_t bytes,
                         std::uint64_t budget_bytes,
                         double cost_seconds) {
    refill(now);
    if (budget_bytes > 0) {
        const double budgets = static_cast<double>(bytes) / static_cast<double>(budget_bytes);
        tokens_ = std::max(0.0, tokens_ - budgets);
    }
    cost_ += cost_seconds;
}

void GrowthBackoff::refill(Nanoseconds now) {
    if (!filled_) {
        filled_ = true;
        tokens_ = options_.burst_budgets;
    } else if (options_.refill > Nanoseconds{0}) {
        tokens_ = std::min(options_.burst_budgets,
                           tokens_ + to_seconds(now - filled_at_) / to_seconds(options_.refill));
    }
    filled_at_ = now;
}

}  // namespace ballast::scheduler
