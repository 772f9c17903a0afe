// SPDX-License-Identifier: MIT
// A (min,+) chain over the leads, and a search for the two prices.
#include "scheduler/placement/price_dual.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "engine/base/check.h"

namespace ballast::scheduler {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kSteps = 24;             // lines to intersect in one price: 5 to 8 are usual
constexpr double kFlat = 1e-5;         // of the value: near enough to the summit
constexpr double kWiden = 1.25;        // a first step away from a price that was good before
constexpr double kPriceMax = 1.0;      // seconds a byte: nothing is worth that
constexpr double kFirstPrice = 1e-10;  // seconds a byte: 10 GB/s
constexpr double kLinkStep = 0.05;
constexpr double kSame = 1e-14;  // of a value: what sums in another order differ by

/// A chain's value as a line in the price of memory.
struct Line {
    double cost = 0.0;   // at price 0
    double slope = 0.0;  // its memory less the limit
    double link = 0.0;   // slope in the price of the link
    double at(double price) const { return cost + slope * price; }
};

/// Two lines with the summit between them, the rising one first, near `start` if that is a price.
/// Nothing if all that helps fits, or if nothing keeps the limit.
template <class LineAt>
std::optional<std::pair<Line, Line>> bracket(const LineAt& line, double start) {
    const double first = start > 0.0 ? start : kFirstPrice;
    Line last = line(first);
    if (last.slope > 0.0) {
        double price = first * kWiden;
        while (price < kPriceMax) {
            const Line next = line(price);
            if (next.slope <= 0.0) {
                return std::pair(last, next);
            }
            last = next;
            price *= kWiden * kWiden;
        }
        return std::nullopt;
    }
    for (const double price : {first / kWiden, 0.0}) {
        const Line next = line(price);
        if (next.slope > 0.0) {
            return std::pair(next, last);
        }
        last = next;
    }
    return std::nullopt;
}

}  // namespace

PriceDual::PriceDual(const OptionTable& table)
    : table_(table),
      // Elsewhere a side that starts earlier may be in the other's way, or no longer own what is
      // next.
      is_monotone_(!table.model().unified() &&
                   table.model().options().hops == HopModel::kOverlapped),
      arcs_(table.n_types()),
      reached_(table.n_groups() + 1) {}

void PriceDual::drop_late(Values& values) const {
    if (!is_monotone_) {
        return;
    }
    // A value is of the time on the device; with the lead it is that of the time on the CPU. What
    // is later on both sides than another can only end later, so that it leads to no cheaper chain,
    // and the bound stays one without it.
    const double never = kInfinity;
    double least = never;
    for (double& value : values) {
        const bool earlier = value < least;
        least = earlier ? value : least;
        value = earlier ? value : never;
    }
    least = never;
    for (std::size_t i = kLeads; i-- > 0;) {
        const double of_cpu = values[i] + lead_[i];
        const bool earlier = of_cpu < least;
        least = earlier ? of_cpu : least;
        values[i] = earlier ? values[i] : never;
    }
}

void PriceDual::set_prices(const Prices& prices, double piece_limit) {
    of_time_ = 1.0 - prices.link;
    for (std::size_t i = 0; i < kLeads; ++i) {
        lead_[i] = of_time_ * table_.lead(static_cast<int>(i));
    }
    for (std::size_t type = 0; type < arcs_.size(); ++type) {
        Arcs& arcs = arcs_[type];
        arcs.number.fill(-1);
        arcs.cheapest.clear();
        const std::span<const Option> options = table_.options(static_cast<int>(type));
        for (const std::vector<int>& shape : table_.shapes(static_cast<int>(type))) {
            Priced best;
            double least = kInfinity;
            for (const int index : shape) {
                const auto i = static_cast<std::size_t>(index);
                const Option& option = options[i];
                if (option.piece > piece_limit) {
                    continue;
                }
                const double use = prices.memory * option.memory +
                                   prices.link * option.link_seconds +
                                   (extra_.empty() ? 0.0 : extra_[type][i]);
                const double value = of_time_ * option.delta[0] + use;
                if (value < least) {
                    least = value;
                    best = {.option = &option, .use = use};
                }
            }
            if (best.option != nullptr) {
                arcs.cheapest.push_back(best);
            }
        }
    }
}

std::span<const PriceDual::Arc> PriceDual::arcs(std::size_t type, std::size_t before) {
    Arcs& arcs = arcs_[type];
    std::array<Arc, kLeads>& made = arcs.from[before];
    std::int8_t& number = arcs.number[before];
    if (number < 0) {
        Values values;
        values.fill(kInfinity);
        std::array<const Option*, kLeads> options = {};
        for (const Priced& priced : arcs.cheapest) {
            const std::uint8_t after = priced.option->next[before];
            const double value = of_time_ * priced.option->delta[before] + priced.use;
            if (value < values[after]) {
                values[after] = value;
                options[after] = priced.option;
            }
        }
        drop_late(values);
        number = 0;
        for (std::size_t after = 0; after < kLeads; ++after) {
            if (values[after] < kInfinity) {
                made[static_cast<std::size_t>(number++)] = {
                    .value = values[after],
                    .option = options[after],
                    .after = static_cast<std::uint8_t>(after)};
            }
        }
    }
    return std::span(made).first(static_cast<std::size_t>(number));
}

void PriceDual::step(std::size_t group) {
    const auto type = static_cast<std::size_t>(table_.type_of(group));
    Values& next = reached_[group + 1];
    next.fill(kInfinity);
    for (std::size_t before = 0; before < kLeads; ++before) {
        const double value = reached_[group][before];
        if (value == kInfinity) {
            continue;
        }
        for (const Arc& arc : arcs(type, before)) {
            next[arc.after] = std::min(next[arc.after], value + arc.value);
        }
    }
    drop_late(next);
}

std::optional<double> PriceDual::rise(std::size_t end, std::size_t period) const {
    const Values& before = reached_[end - period];
    const Values& after = reached_[end];
    double rise = kInfinity;
    for (std::size_t i = 0; i < kLeads; ++i) {
        if ((before[i] == kInfinity) != (after[i] == kInfinity)) {
            return std::nullopt;
        }
        if (before[i] == kInfinity) {
            continue;
        }
        const double here = after[i] - before[i];
        if (rise == kInfinity) {
            rise = here;
        } else if (std::abs(here - rise) > kSame * std::abs(after[i])) {
            return std::nullopt;
        }
    }
    return rise < kInfinity ? std::optional(rise) : std::nullopt;
}

void PriceDual::reach_all() {
    skips_.clear();
    reached_[0].fill(kInfinity);
    reached_[0][0] = of_time_ * table_.hop();
    std::size_t group = 0;
    for (const OptionTable::Recurrence& of : table_.recurrences()) {
        for (; group < of.begin; ++group) {
            step(group);
        }
        while (group < of.end) {
            step(group);
            ++group;
            const std::size_t since = group - of.begin;
            const std::size_t times = (of.end - group) / of.period;
            if (since % of.period != 0 || times == 0) {
                continue;
            }
            if (const auto constant = rise(group, of.period)) {
                skips_.push_back({.begin = group, .period = of.period, .times = times});
                Values& after = reached_[group + times * of.period];
                for (std::size_t i = 0; i < kLeads; ++i) {
                    after[i] = reached_[group][i] + static_cast<double>(times) * *constant;
                }
                group += times * of.period;
            }
        }
    }
    for (; group < table_.n_groups(); ++group) {
        step(group);
    }
}

ChainSums PriceDual::walk(const Prices& prices, double piece_limit, std::vector<int>* choice) {
    ++n_chains_;
    set_prices(prices, piece_limit);
    reach_all();
    const Values& last = reached_.back();
    std::size_t lead = 0;
    for (std::size_t i = 1; i < kLeads; ++i) {
        lead = last[i] + lead_[i] < last[lead] + lead_[lead] ? i : lead;
    }
    ChainSums sums = {.value = last[lead] + lead_[lead],
                      .seconds = table_.hop() + table_.lead(static_cast<int>(lead))};
    // Back along the chain, to add up what the cheapest options take. `like`: of this group's
    // period, the group that was reached.
    const auto back = [&](std::size_t group, std::size_t like) {
        const auto [from, option] = arrival(like, lead);
        sums.add({.seconds = option->delta[from],
                  .memory = option->memory,
                  .link_seconds = option->link_seconds},
                 1.0);
        if (choice != nullptr) {
            const Option* first = table_.options(table_.type_of(group)).data();
            (*choice)[group] = static_cast<int>(option - first);
        }
        lead = from;
    };
    auto skip = skips_.rbegin();
    std::size_t group = table_.n_groups();
    while (group > 0) {
        if (skip == skips_.rend() || group != skip->begin + skip->times * skip->period) {
            --group;
            back(group, group);
            continue;
        }
        for (std::size_t time = skip->times; time-- > 0;) {
            const ChainSums later = sums;
            const std::size_t lead_later = lead;
            for (std::size_t i = skip->period; i-- > 0;) {
                back(skip->begin + time * skip->period + i, skip->begin - skip->period + i);
            }
            if (lead == lead_later && choice == nullptr) {  // and so on
                sums.add({.seconds = sums.seconds - later.seconds,
                          .memory = sums.memory - later.memory,
                          .link_seconds = sums.link_seconds - later.link_seconds},
                         static_cast<double>(time));
                break;
            }
        }
        group = skip->begin;
        ++skip;
    }
    return sums;
}

std::pair<std::size_t, const Option*> PriceDual::arrival(std::size_t group, std::size_t lead) {
    const auto type = static_cast<std::size_t>(table_.type_of(group));
    for (std::size_t from = 0; from < kLeads; ++from) {
        const double value = reached_[group][from];
        if (value == kInfinity) {
            continue;
        }
        for (const Arc& arc : arcs(type, from)) {
            if (arc.after == lead && value + arc.value == reached_[group + 1][lead]) {
                return {from, arc.option};
            }
        }
    }
    BALLAST_CHECK(false);
    return {};
}

ChainSums PriceDual::cheapest(const Prices& prices, double piece_limit) {
    return walk(prices, piece_limit, nullptr);
}

std::vector<int> PriceDual::cheapest_choice(const Prices& prices, double piece_limit) {
    std::vector<int> choice(table_.n_groups());
    walk(prices, piece_limit, &choice);
    return choice;
}

PriceDual::Edge PriceDual::solve_memory(double memory_limit,
                                        double piece_limit,
                                        double link_price,
                                        double start) {
    // The dual is concave and piecewise linear in the memory price: intersect the last line that
    // rises with the last that falls.
    Edge best = {.bound = {.seconds = -kInfinity}};
    const auto line = [&](double price) {
        const Prices prices = {.memory = price, .link = link_price};
        const ChainSums sums = cheapest(prices, piece_limit);
        const Line found = {.cost = sums.value - price * sums.memory,
                            .slope = sums.memory - memory_limit,
                            .link = sums.link_seconds - sums.seconds};
        if (found.at(price) > best.bound.seconds) {
            best = {.bound = {.seconds = found.at(price), .prices = prices}, .slope = found.link};
        }
        return found;
    };
    const auto found = bracket(line, start);
    if (!found) {
        return best;
    }
    auto [rising, falling] = *found;
    for (int i = 0; i < kSteps; ++i) {
        const double price = (rising.cost - falling.cost) / (falling.slope - rising.slope);
        if (!(price >= 0.0) || !std::isfinite(price)) {
            break;
        }
        const double expected = rising.at(price);
        const Line met = line(price);
        if (met.at(price) >= expected - kFlat * std::abs(expected)) {
            break;
        }
        (met.slope > 0.0 ? rising : falling) = met;
    }
    // The mix of both that fills the memory exactly.
    const double share = falling.slope / (falling.slope - rising.slope);
    best.slope = share * rising.link + (1.0 - share) * falling.link;
    return best;
}

PriceDual::Bound PriceDual::solve(double memory_limit, double piece_limit, const Prices& start) {
    Bound best = {.seconds = -kInfinity};
    const auto edge = [&](double link_price) {
        const double near = best.prices.memory > 0.0 ? best.prices.memory : start.memory;
        const Edge found = solve_memory(memory_limit, piece_limit, link_price, near);
        if (found.bound.seconds > best.seconds) {
            best = found.bound;
        }
        return found;
    };
    if (piece_limit <= 0.0) {
        return edge(0.0).bound;  // nothing streams
    }
    // Two prices with the best one between them, as above.
    Edge low = edge(std::min(start.link, 1.0));
    Edge high = low;
    if (low.slope > 0.0) {
        for (double step = kLinkStep; high.slope > 0.0; step *= 4.0) {
            const double price = std::min(low.bound.prices.link + step, 1.0);
            high = edge(price);
            if (high.slope <= 0.0 || price >= 1.0) {
                break;
            }
            low = high;
        }
    } else {
        for (double step = kLinkStep; low.slope <= 0.0; step *= 4.0) {
            const double price = std::max(high.bound.prices.link - step, 0.0);
            low = price < high.bound.prices.link ? edge(price) : high;
            if (price <= 0.0) {
                break;
            }
            if (low.slope <= 0.0) {
                high = low;
            }
        }
        if (low.slope <= 0.0) {
            return best;  // the link has time to spare
        }
    }
    // The same in the price of the link: intersect the lines on both sides of the summit.
    for (int i = 0; i < kSteps && high.slope < 0.0; ++i) {
        const auto at_zero = [](const Edge& of) {
            return of.bound.seconds - of.slope * of.bound.prices.link;
        };
        const double price = (at_zero(high) - at_zero(low)) / (low.slope - high.slope);
        if (!(price > low.bound.prices.link) || !(price < high.bound.prices.link)) {
            break;
        }
        const double expected = at_zero(low) + low.slope * price;
        const Edge met = edge(price);
        if (met.bound.seconds >= expected - kFlat * std::abs(expected)) {
            break;
        }
        (met.slope > 0.0 ? low : high) = met;
    }
    return best;
}

std::vector<std::vector<double>> prefill_floor(const OptionTable& decode,
                                               const OptionTable& prefill,
                                               double link_price,
                                               double piece_limit) {
    std::vector<std::vector<double>> floor(decode.n_types());
    for (std::size_t type = 0; type < decode.n_types(); ++type) {
        // By (resident parts, whether the always-read part is).
        std::map<std::pair<int, bool>, double> least;
        for (const Option& option : prefill.options(static_cast<int>(type))) {
            if (option.piece > piece_limit) {
                continue;
            }
            double seconds = kInfinity;
            for (std::size_t before = 0; before < kLeads; ++before) {
                // A lead is worth half of itself to the side that has it.
                const double lead =
                    prefill.lead(option.next[before]) - prefill.lead(static_cast<int>(before));
                seconds = std::min(seconds, option.delta[before] + lead / 2.0);
            }
            const double cost = (1.0 - link_price) * seconds + link_price * option.link_seconds;
            double& known =
                least
                    .try_emplace({option.placed.resident, option.placed.shared_on_device},
                                 kInfinity)
                    .first->second;
            known = std::min(known, cost);
        }
        for (const Option& option : decode.options(static_cast<int>(type))) {
            const auto found = least.find({option.placed.resident, option.placed.shared_on_device});
            floor[type].push_back(found == least.end() ? 0.0 : found->second);
        }
    }
    return floor;
}

PriceDual::Bound bound_with_ring(PriceDual& dual,
                                 double memory_limit,
                                 const PriceDual::Bound& start,
                                 const ExtraCosts& extra) {
    constexpr double kTile = static_cast<double>(kTileBytesMax);
    // A case: pieces of more than `above` and at most `limit` bytes. The ring of the smallest piece
    // of a case is a lower bound of the memory its plans need.
    struct Case {
        double above = 0.0;
        double limit = 0.0;
    };
    constexpr std::array<Case, 6> kCases = {{{0.0, 0.0},
                                             {0.0, kTile / 16},
                                             {kTile / 16, kTile / 4},
                                             {kTile / 4, kTile / 2},
                                             {kTile / 2, kTile},
                                             {kTile, kInfinity}}};
    PriceDual::Bound least = {.seconds = kInfinity};
    // The case that won before comes first: most others then need one chain to be ruled out.
    std::array<Case, kCases.size()> cases = kCases;
    const auto won = std::find_if(cases.begin(), cases.end(), [&](const Case& ring) {
        return ring.limit == start.piece_limit;
    });
    if (won != cases.end()) {
        std::rotate(cases.begin(), won, won + 1);
    }
    Prices from = start.prices;
    for (const Case& ring : cases) {
        const double limit = memory_limit - ring_bytes(ring.above);
        if (limit < 0.0 && ring.limit > 0.0) {
            continue;
        }
        if (extra) {
            dual.set_extra(extra(ring.limit));
        }
        // Any prices give a bound. Where those of the best case so far show that this one is worse,
        // it need not be solved.
        if (least.seconds < kInfinity) {
            const ChainSums sums = dual.cheapest(least.prices, ring.limit);
            if (sums.value - least.prices.memory * std::max(limit, 0.0) >= least.seconds) {
                continue;
            }
        }
        const PriceDual::Bound bound = dual.solve(std::max(limit, 0.0), ring.limit, from);
        from = {.memory = bound.prices.memory,
                .link = std::max(bound.prices.link, start.prices.link)};
        if (bound.seconds < least.seconds) {
            least = bound;
            least.piece_limit = ring.limit;
        }
    }
    return least;
}

}  // namespace ballast::scheduler
