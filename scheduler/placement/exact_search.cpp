// SPDX-License-Identifier: MIT
// Partial chains from group to group, without those that cannot be the best.
#include "scheduler/placement/exact_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/check.h"

namespace ballast::scheduler {

namespace {

// Seconds; leads that differ by less are the same.
constexpr double kSameLead = 1e-15;
// More partial chains than this are more than the search is meant for.
constexpr std::size_t kPartialsMax = 20000;
// Groups of a very short chain, and options a group that it is searched with.
constexpr std::size_t kVeryShort = 6;
constexpr std::size_t kVeryShortOptions = 14;

/// A chain of choices for the first groups.
struct Partial {
    ChainState state = {};
    double memory = 0.0;
    std::array<std::int16_t, kExactGroupsMax> choice = {};
};

/// Where a later start can make a step shorter (one memory for both slows what overlaps; blocking
/// hops start with the earlier side), only chains of the same lead are compared.
bool leads_must_agree(const StepModel& model) {
    return model.unified() || model.options().hops == HopModel::kBlocking;
}

bool is_no_worse(const Partial& a, const Partial& b, bool same_lead) {
    if (a.memory > b.memory || a.state.device > b.state.device || a.state.cpu > b.state.cpu) {
        return false;
    }
    const double difference = (a.state.cpu - a.state.device) - (b.state.cpu - b.state.device);
    return !same_lead || std::abs(difference) < kSameLead;
}

/// Drops chains that another is no worse than.
void drop_dominated(std::vector<Partial>& chains, bool same_lead) {
    std::sort(chains.begin(), chains.end(), [](const Partial& a, const Partial& b) {
        return a.memory != b.memory ? a.memory < b.memory : a.state.cpu < b.state.cpu;
    });
    std::vector<Partial> kept;
    for (const Partial& chain : chains) {
        // Those kept take no more memory.
        const bool dominated = std::any_of(kept.begin(), kept.end(), [&](const Partial& other) {
            return is_no_worse(other, chain, same_lead);
        });
        if (!dominated) {
            kept.push_back(chain);
        }
    }
    chains = std::move(kept);
}

/// The least memory that the groups from each on can take.
std::array<double, kExactGroupsMax + 1> least_memory(const OptionTable& table,
                                                     std::span<const std::vector<int>> allowed) {
    std::array<double, kExactGroupsMax + 1> rest = {};
    for (std::size_t group = allowed.size(); group-- > 0;) {
        double least = std::numeric_limits<double>::infinity();
        for (const int index : allowed[group]) {
            const Option& option = table.option(group, index);
            if (option.cost.streamed_bytes <= 0.0) {
                least = std::min(least, option.memory);
            }
        }
        rest[group] = rest[group + 1] + least;
    }
    return rest;
}

}  // namespace

std::vector<int> options_to_search(const OptionTable& table,
                                   std::size_t group,
                                   double memory_price) {
    const std::span<const Option> options = table.options(table.type_of(group));
    std::vector<std::pair<double, int>> ranked;
    std::vector<std::pair<double, int>> by_memory;
    for (std::size_t i = 0; i < options.size(); ++i) {
        const Option& option = options[i];
        if (option.piece > 0.0) {
            continue;
        }
        const double seconds = std::min(option.delta.front(), option.delta.back());
        ranked.emplace_back(seconds + memory_price * option.memory, static_cast<int>(i));
        by_memory.emplace_back(option.memory, static_cast<int>(i));
    }
    std::sort(ranked.begin(), ranked.end());
    std::sort(by_memory.begin(), by_memory.end());
    std::vector<int> chosen = {by_memory.front().second};
    const bool very_short = table.n_groups() <= kVeryShort;
    const std::size_t most = very_short ? kVeryShortOptions : kExactOptionsMax;
    const auto take = [&](int option) {
        if (chosen.size() < most &&
            std::find(chosen.begin(), chosen.end(), option) == chosen.end()) {
            chosen.push_back(option);
        }
    };
    take(by_memory.back().second);
    // The cheapest are much alike, and do not fill the memory together.
    for (std::size_t i = 1; i < kVeryShortOptions / 2 && very_short; ++i) {
        take(by_memory[by_memory.size() * i * 2 / kVeryShortOptions].second);
    }
    for (const auto& [cost, option] : ranked) {
        take(option);
    }
    return chosen;
}

std::optional<ExactChoice> exact_choice(const OptionTable& table,
                                        double memory_limit,
                                        std::span<const std::vector<int>> allowed) {
    BALLAST_CHECK(allowed.size() == table.n_groups() && allowed.size() <= kExactGroupsMax);
    const StepModel& model = table.model();
    const bool same_lead = leads_must_agree(model);
    const auto rest = least_memory(table, allowed);
    std::vector<Partial> chains = {{.state = {.device = table.hop(), .cpu = 0.0}}};
    for (std::size_t group = 0; group < allowed.size(); ++group) {
        std::vector<Partial> longer;
        longer.reserve(chains.size() * allowed[group].size());
        for (const Partial& chain : chains) {
            for (const int index : allowed[group]) {
                const Option& option = table.option(group, index);
                const double memory = chain.memory + option.memory;
                if (option.cost.streamed_bytes > 0.0 || memory + rest[group + 1] > memory_limit) {
                    continue;
                }
                Partial next = chain;
                next.state = model.advance(option.cost, chain.state);
                next.memory = memory;
                next.choice[group] = static_cast<std::int16_t>(index);
                longer.push_back(next);
            }
        }
        if (longer.size() > kPartialsMax) {
            return std::nullopt;
        }
        drop_dominated(longer, same_lead);
        chains = std::move(longer);
    }
    const auto best =
        std::min_element(chains.begin(), chains.end(), [](const Partial& a, const Partial& b) {
            return a.state.cpu < b.state.cpu;
        });
    if (best == chains.end()) {
        return std::nullopt;
    }
    return ExactChoice{
        .choice = Choice(best->choice.begin(),
                         best->choice.begin() + static_cast<std::ptrdiff_t>(allowed.size())),
        .seconds = best->state.cpu};
}

}  // namespace ballast::scheduler
