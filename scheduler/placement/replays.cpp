// SPDX-License-Identifier: MIT
// Replays, each kept.
#include "scheduler/placement/replays.h"

#include <algorithm>

namespace ballast::scheduler {

void Replays::start(double memory_bytes) {
    memory_bytes_ = memory_bytes;
    replayed_.clear();
    with_prefills_.clear();
}

double Replays::decode_seconds(const Choice& choice) {
    const auto [known, is_new] = replayed_.try_emplace(choice);
    if (is_new) {
        shares_.clear();
        shares_.reserve(choice.size());
        for (std::size_t i = 0; i < choice.size(); ++i) {
            shares_.push_back(&decode_.option(i, choice[i]).cost);
        }
        known->second = decode_.model().seconds(shares_);
    }
    return known->second;
}

double Replays::decode_seconds(const Placement& placement, double limit) {
    const StepModel& model = decode_.model();
    shares_.clear();
    shares_.reserve(placement.groups.size());
    double link = 0.0;
    for (std::size_t i = 0; i < placement.groups.size(); ++i) {
        const ShareCost& cost = costs_.cost(decode_.type_of(i), placement.groups[i]);
        shares_.push_back(&cost);
        link += model.link_seconds(cost);
    }
    // The steps that are measured begin with what is in the ring already.
    const double least = link - kRingBytesMax / model.link_bps() / kMeasuredSteps;
    return least >= limit ? least : model.seconds(shares_);
}

double Replays::least_seconds(const Choice& choice) const {
    double seconds = decode_.hop();
    double link = 0.0;
    std::size_t lead = 0;
    for (std::size_t i = 0; i < choice.size(); ++i) {
        const Option& option = decode_.option(i, choice[i]);
        seconds += option.delta[lead];
        link += option.link_seconds;
        lead = option.next[lead];
    }
    return std::max(seconds + decode_.lead(static_cast<int>(lead)), link);
}

const PrefillChoice& Replays::with_prefill(const Placement& placement) {
    const auto known = std::find_if(with_prefills_.begin(),
                                    with_prefills_.end(),
                                    [&](const WithPrefill& of) { return of.asked == placement; });
    if (known != with_prefills_.end()) {
        return known->choice;
    }
    PrefillChoice choice =
        choose_prefill_streams(prefill_, placement, reserve_, ladder_, memory_bytes_);
    with_prefills_.push_back({.asked = placement, .choice = std::move(choice)});
    return with_prefills_.back().choice;
}

}  // namespace ballast::scheduler
