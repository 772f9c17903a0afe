// SPDX-License-Identifier: MIT
// The scheduler's own reaction, as the engine is to run it: shrink at once, grow slowly.
#include "scheduler/sim/session_rules.h"

#include <algorithm>
#include <array>

namespace ballast::scheduler {

namespace {

// Plans whose kinds of use are still tried with what is there.
constexpr std::size_t kRecentPlans = 6;
// A growth that gains less is not begun.
constexpr double kWorthGrowing = 0.02;
constexpr std::uint64_t kChunkLeast = 64ULL << 20U;
// Several events that have come are told one by one.
constexpr int kSamplesAtOnce = 4;

LoadRules with_memory(LoadRules rules, const DeviceMemory& memory) {
    rules.memory = memory;
    return rules;
}

}  // namespace

OurRule::OurRule(const RuleParts& parts, const SessionOptions& options)
    : parts_(parts), control_(with_memory(options.rules, parts.memory)), poll_(options.poll) {}

SimConditions OurRule::shares() const {
    return {.device = directive_.device_share,
            .link = directive_.link_share,
            .cpu = directive_.cpu_share};
}

const StepModel& OurRule::model(bool uploading) {
    SimConditions of = shares();
    of.uploading = uploading;
    return parts_.plans->model(of);
}

void OurRule::observe() {
    const Nanoseconds now = parts_.world->now();
    polled_ = now;
    control_.holds(parts_.world->held_bytes());
    for (int i = 0; i < kSamplesAtOnce; ++i) {
        const auto sample = parts_.monitor->sample(now);
        if (!sample) {
            return;
        }
        control_.observe(now, *sample);
        const LoadView& view = control_.view();
        latest_ = {.device = view.device_latest, .link = view.link_latest, .cpu = view.cpu_latest};
        if (sample->event == LoadEvent::kNone) {
            return;
        }
    }
}

void OurRule::begin() {
    control_.working(Nanoseconds{0});
    observe();
    directive_ = control_.directive(Nanoseconds{0});
    budget_ = directive_.budget_bytes;
    usable_ = budget_;
    const Placement& plan = parts_.plans->plan(directive_.budget_bytes, shares());
    recent_.push_front({.plan = plan});
    ++parts_.world->result().n_plans;
    parts_.world->begin_with(plan);
    use_ = {.kept = parts_.world->kept(), .executed = plan, .seconds = model().seconds(plan)};
    n_changes_ = parts_.world->n_changes();
    parts_.world->show(directive_.level);
}

/// In the middle of a step only what must go goes; the rest of the step runs with what stays.
void OurRule::poll() {
    observe();
    directive_.budget_bytes = control_.directive(parts_.world->now()).budget_bytes;
    meet_budget();
}

void OurRule::meet_budget() {
    SessionWorld& world = *parts_.world;
    if (world.held_bytes() <= directive_.budget_bytes) {
        return;
    }
    world.cancel_upload();
    before_growth_.reset();
    if (world.held_bytes() > directive_.budget_bytes) {
        // The streams of this step go on, so that their ring stays.
        const std::uint64_t ring =
            parts_.residency->bytes(cpu_only(parts_.plans->catalog()), world.executed());
        shrink(directive_.budget_bytes - std::min(ring, directive_.budget_bytes));
    }
    if (world.held_bytes() > directive_.budget_bytes) {
        // Not even the ring has room: the rest of the step runs without.
        Placement without = world.executed();
        for (GroupPlacement& placed : without.groups) {
            placed.streamed = 0;
        }
        world.execute(without);
    }
    n_changes_ = -1;  // to be looked at before the next step
}

/// What is dropped is gone for a while, so that the choice is the latest sample's: the same
/// program that takes the memory may have begun to keep the device busy.
void OurRule::shrink(std::uint64_t budget_bytes) {
    SessionWorld& world = *parts_.world;
    std::vector<Placement> plans = {parts_.plans->plan(budget_bytes, latest_)};
    for (const Candidate& candidate : recent_) {
        plans.push_back(candidate.plan);
    }
    world.keep(
        parts_.residency->best_use(parts_.plans->model(latest_), world.kept(), plans, budget_bytes)
            .kept);
}

void OurRule::react() {
    SessionWorld& world = *parts_.world;
    if (directive_.budget_bytes < budget_) {
        before_growth_.reset();
    }
    if (world.held_bytes() > directive_.budget_bytes) {
        world.cancel_upload();
        if (directive_.use_device && world.held_bytes() > directive_.budget_bytes) {
            shrink(directive_.budget_bytes);
        }
    }
    note_usable();
    note_plan();
    const bool uploading = world.uploading();
    use_ = parts_.residency->best_use(model(uploading), world.kept(), plans_, usable_, !uploading);
    world.keep(use_.kept);
    world.execute(use_.executed);
    without_seconds_ = 0.0;
    if (before_growth_) {
        without_seconds_ =
            parts_.residency->best_use(model(), *before_growth_, plans_, usable_).seconds;
    }
    budget_ = directive_.budget_bytes;
    n_changes_ = world.n_changes();
    for (Candidate& candidate : recent_) {
        weigh(candidate);
    }
}

void OurRule::note_usable() {
    const std::uint64_t budget = directive_.budget_bytes;
    limit_ = control_.growth_limit(parts_.world->now());
    if (limit_ != budget) {
        const std::uint64_t before = limit_ == 0 ? usable_ : limit_;
        usable_ = std::min(budget, std::max(before, parts_.world->held_bytes()));
    } else {
        usable_ = budget;
    }
}

void OurRule::note_plan() {
    plans_.clear();
    if (!directive_.use_device) {
        return;
    }
    const Placement& plan = parts_.plans->plan(usable_, shares());
    const auto known = std::find_if(
        recent_.begin(), recent_.end(), [&](const Candidate& old) { return old.plan == plan; });
    if (known != recent_.begin()) {
        ++parts_.world->result().n_plans;
        Candidate next{.plan = plan};
        if (known != recent_.end()) {
            next = std::move(*known);
            recent_.erase(known);
        }
        recent_.push_front(std::move(next));
        recent_.resize(std::min(recent_.size(), kRecentPlans));
    }
    for (const Candidate& candidate : recent_) {
        plans_.push_back(candidate.plan);
    }
}

void OurRule::weigh(Candidate& candidate) {
    candidate.gain = 0.0;
    candidate.bytes = 0;
    if (plans_.empty() || parts_.world->uploading() || limit_ == 0) {
        return;
    }
    const Residency& residency = *parts_.residency;
    candidate.wanted = residency.with_plan(use_.kept, candidate.plan, usable_);
    const Placement stays = common_residents(use_.kept, candidate.wanted);
    candidate.drops = !(stays == use_.kept);
    for (const ResidencyGrowth& more :
         residency.growth(model(), stays, candidate.wanted, usable_)) {
        candidate.bytes += more.bytes;
    }
    if (candidate.bytes == 0) {
        candidate.owed_seconds = 0.0;
        return;
    }
    // Others of the recent plans rarely know a better use of it.
    const std::array<Placement, 2> plans = {candidate.plan, plans_.front()};
    const auto use = residency.best_use(model(), candidate.wanted, plans, usable_);
    const auto meanwhile = residency.best_use(model(true), stays, plans, usable_, false);
    candidate.gain = 1.0 - use.seconds / use_.seconds;
    const double link = parts_.plans->hardware().link_gbps * 1e9 * directive_.link_share;
    const double seconds = link > 0.0 ? static_cast<double>(candidate.bytes) / link : 0.0;
    const double slower = std::max(0.0, 1.0 - use_.seconds / meanwhile.seconds);
    candidate.cost_seconds = 2.0 * to_seconds(kChangeStall) + slower * seconds;
}

void OurRule::grow() {
    const Candidate* best = nullptr;
    for (std::size_t i = 0; i < recent_.size(); ++i) {
        const Candidate& candidate = recent_[i];
        // Memory that came free is the back-off's affair alone.
        const bool at_once = i == 0 && !candidate.drops && limit_ == directive_.budget_bytes;
        if (candidate.bytes > 0 && candidate.gain > kWorthGrowing &&
            (at_once || candidate.owed_seconds >= candidate.cost_seconds) &&
            (best == nullptr || candidate.gain > best->gain)) {
            best = &candidate;
        }
    }
    if (best != nullptr && !parts_.world->uploading()) {
        grow_towards(*best);
    }
}

/// Whether a part of a growth is worth something without the rest. Else the next reaction would
/// drop it again, for a ring to stream through.
bool OurRule::pays_alone(const Placement& stays, const std::vector<ResidencyGrowth>& growth) {
    Placement then = stays;
    for (const ResidencyGrowth& more : growth) {
        then.groups[more.group] = more.then;
    }
    const ResidencyUse use = parts_.residency->best_use(model(), then, plans_, usable_);
    return use.kept == then && use.seconds < use_.seconds;
}

void OurRule::grow_towards(const Candidate& candidate) {
    SessionWorld& world = *parts_.world;
    const Placement stays = common_residents(world.kept(), candidate.wanted);
    const std::uint64_t resident = parts_.residency->bytes(stays, candidate.plan);
    const std::uint64_t allowed =
        control_.growth(world.now(), resident, resident + candidate.bytes);
    control_.holds(world.held_bytes());
    if (allowed < std::min(candidate.bytes, kChunkLeast)) {
        return;
    }
    std::vector<ResidencyGrowth> growth =
        parts_.residency->growth(model(), stays, candidate.wanted, allowed);
    std::uint64_t bytes = 0;
    for (const ResidencyGrowth& more : growth) {
        bytes += more.bytes;
    }
    if (bytes == 0 || (bytes < candidate.bytes && !pays_alone(stays, growth))) {
        return;
    }
    if (!before_growth_) {
        before_growth_ = world.kept();
    }
    control_.grew(
        world.now(),
        bytes,
        candidate.cost_seconds * static_cast<double>(bytes) / static_cast<double>(candidate.bytes));
    use_ = parts_.residency->best_use(model(true), stays, plans_, usable_, false);
    world.keep(stays);
    world.execute(use_.executed);
    world.upload(growth);
    for (Candidate& other : recent_) {
        other.owed_seconds = 0.0;
    }
    n_changes_ = -1;
}

void OurRule::before_step() {
    SessionWorld& world = *parts_.world;
    control_.working(world.now());
    observe();
    if (control_.may_retry(world.now()) && world.truth().device_works) {
        control_.device_back(world.now());
    }
    const std::uint64_t version = directive_.version;
    directive_ = control_.directive(world.now());
    world.show(directive_.level);
    if (directive_.version != version || n_changes_ != world.n_changes() ||
        world.held_bytes() > directive_.budget_bytes ||
        limit_ != control_.growth_limit(world.now())) {
        react();
    }
    grow();
    if (n_changes_ != world.n_changes()) {
        react();
    }
}

void OurRule::after_step(std::optional<double> seconds) {
    if (!seconds) {
        if (!parts_.world->truth().device_works) {
            control_.device_lost(parts_.world->now());
        }
        return;
    }
    for (Candidate& candidate : recent_) {
        candidate.owed_seconds = std::max(0.0, candidate.owed_seconds + *seconds * candidate.gain);
    }
    if (without_seconds_ > 0.0 && use_.seconds > 0.0) {
        control_.gained(*seconds, *seconds * without_seconds_ / use_.seconds);
    }
}

}  // namespace ballast::scheduler
