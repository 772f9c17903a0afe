// SPDX-License-Identifier: MIT
// Puts a world and a rule together and runs them to the trace's end.
#include "scheduler/sim/sim_session.h"

#include <algorithm>
#include <map>

#include "engine/base/check.h"
#include "scheduler/sim/session_rules.h"

namespace ballast::scheduler {

namespace {

// Static plans are made for so many of a trace's states, those that hold longest.
constexpr std::size_t kStaticStates = 8;

struct RuleFacts {
    LoadRule rule;
    const char* key;
    const char* name;
};
constexpr std::array<RuleFacts, kLoadRules.size()> kFacts = {{
    {LoadRule::kOurs, "ours", "Ballast"},
    {LoadRule::kPaper, "paper", "15% for 5 steps (paper)"},
    {LoadRule::kSpill, "spill", "full plan, driver spills"},
    {LoadRule::kStatic, "static", "best static plan"},
    {LoadRule::kIdeal, "ideal", "ideal, at no cost"},
}};

const RuleFacts& facts_of(LoadRule rule) {
    const auto* found = std::find_if(
        kFacts.begin(), kFacts.end(), [&](const RuleFacts& facts) { return facts.rule == rule; });
    BALLAST_CHECK(found != kFacts.end());
    return *found;
}

void run_to_the_end(SessionWorld& world, SessionRule& rule) {
    rule.begin();
    while (true) {
        world.wait_until_awake();
        if (world.ended()) {
            return;
        }
        rule.before_step();
        // What the rule has changed may take a moment, in which more may happen.
        world.wait_until_awake();
        if (world.ended()) {
            return;
        }
        rule.after_step(world.run_step(rule.watcher()));
    }
}

}  // namespace

const char* load_rule_key(LoadRule rule) {
    return facts_of(rule).key;
}

const char* load_rule_name(LoadRule rule) {
    return facts_of(rule).name;
}

SimSession::SimSession(const PlanQuestion& question, const PlanAnswer& answer)
    : plans_(question, answer),
      times_({.catalog = question.catalog,
              .hardware = question.hardware,
              .depth = answer.depth,
              .hops = question.hops,
              .locality = question.locality}),
      residency_(plans_.catalog(), plans_.reserve()) {}

DeviceMemory SimSession::memory(const SessionOptions& options) const {
    return device_memory(options.trace.samples, plans_.memory_bytes(), plans_.device_bytes());
}

std::vector<LoadTruth> SimSession::truths(const SessionOptions& options) const {
    return load_truths(options.trace.samples, memory(options));
}

SessionResult SimSession::run(LoadRule rule, const SessionOptions& options) {
    const DeviceMemory memory = this->memory(options);
    SimMonitor monitor(options.trace.samples, memory.total_bytes, options.seen);
    const SimConditions idle;
    switch (rule) {
        case LoadRule::kIdeal:
            return run_ideal(options);
        case LoadRule::kStatic:
            return run_static(options);
        case LoadRule::kSpill:
            return run_plan(plans_.plan(memory.cap_bytes, idle), options);
        case LoadRule::kOurs:
        case LoadRule::kPaper:
            break;
    }
    SessionWorld world(
        times_, residency_, plans_.reserve(), truths(options), options.trace.duration);
    const RuleParts parts{.world = &world,
                          .plans = &plans_,
                          .residency = &residency_,
                          .monitor = &monitor,
                          .memory = memory};
    if (rule == LoadRule::kOurs) {
        OurRule ours(parts, options);
        run_to_the_end(world, ours);
    } else {
        const LoadTruth& first = world.truth();
        PlanRule paper(parts, plans_.plan(first.room_bytes, first.conditions), true);
        run_to_the_end(world, paper);
    }
    return std::move(world.result());
}

SessionResult SimSession::run_plan(const Placement& plan, const SessionOptions& options) {
    SessionWorld world(
        times_, residency_, plans_.reserve(), truths(options), options.trace.duration);
    PlanRule rule({.world = &world, .plans = &plans_, .residency = &residency_}, plan, false);
    run_to_the_end(world, rule);
    return std::move(world.result());
}

SessionResult SimSession::run_static(const SessionOptions& options) {
    const std::vector<LoadTruth> all = truths(options);
    std::map<SimConditions, Nanoseconds> times;
    std::uint64_t room_least = all.front().room_bytes;
    for (std::size_t i = 0; i < all.size() && all[i].time < options.trace.duration; ++i) {
        const bool is_last = i + 1 == all.size();
        const Nanoseconds end =
            is_last ? options.trace.duration : std::min(all[i + 1].time, options.trace.duration);
        times[all[i].conditions] += end - all[i].time;
        room_least = std::min(room_least, all[i].room_bytes);
    }
    std::vector<std::pair<Nanoseconds, SimConditions>> states;
    states.reserve(times.size());
    for (const auto& [conditions, time] : times) {
        states.push_back({time, conditions});
    }
    std::stable_sort(states.begin(), states.end(), [](const auto& a, const auto& b) {
        return a.first > b.first;
    });
    states.resize(std::min(states.size(), kStaticStates));
    std::vector<Placement> plans = {plans_.plan(room_least, {}), cpu_only(plans_.catalog())};
    for (const auto& state : states) {
        plans.push_back(plans_.plan(room_least, state.second));
    }
    std::optional<SessionResult> best;
    for (std::size_t i = 0; i < plans.size(); ++i) {
        const auto before = plans.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::find(plans.begin(), before, plans[i]) != before) {
            continue;
        }
        SessionResult result = run_plan(plans[i], options);
        if (!best || result.tokens > best->tokens) {
            best = std::move(result);
        }
    }
    return std::move(*best);
}

double SimSession::ideal_rate(const LoadTruth& truth) {
    if (truth.suspended) {
        return 0.0;
    }
    const double alone = times_.seconds(cpu_only(plans_.catalog()), truth.conditions);
    if (!truth.device_works) {
        return 1.0 / alone;
    }
    const Placement& plan = plans_.plan(truth.room_bytes, truth.conditions);
    return 1.0 / std::min(alone, times_.seconds(plan, truth.conditions));
}

SessionResult SimSession::run_ideal(const SessionOptions& options) {
    const std::vector<LoadTruth> all = truths(options);
    SessionResult result;
    std::size_t at = 0;
    Nanoseconds now{0};
    while (now < options.trace.duration) {
        const Nanoseconds bin_end =
            std::min(kTimelineStep * static_cast<std::int64_t>(result.timeline.size() + 1),
                     options.trace.duration);
        TimelinePoint point{.time = bin_end};
        while (now < bin_end) {
            const Nanoseconds until =
                at + 1 < all.size() ? std::min(all[at + 1].time, bin_end) : bin_end;
            point.tokens += to_seconds(until - now) * ideal_rate(all[at]);
            point.room_bytes = all[at].suspended ? 0 : all[at].room_bytes;
            point.resident_bytes = all[at].usable() ? point.room_bytes : 0;
            now = until;
            at += at + 1 < all.size() && all[at + 1].time <= now ? 1 : 0;
        }
        result.tokens += point.tokens;
        result.timeline.push_back(point);
    }
    return result;
}

}  // namespace ballast::scheduler
