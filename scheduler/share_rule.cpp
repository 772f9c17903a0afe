// SPDX-License-Identifier: MIT
// Reacts to what has changed, then weighs what could be uploaded.
#include "scheduler/share_rule.h"

#include <algorithm>
#include <array>

namespace ballast::scheduler {

namespace {

// Plans whose kinds of use are still tried with what is there.
constexpr std::size_t kRecentPlans = 6;
// A growth that gains less is not begun.
constexpr double kWorthGrowing = 0.02;
constexpr std::uint64_t kChunkLeast = 64ULL << 20U;

}  // namespace

MachineShares ShareRule::shares() const {
    return {.device = directive_.device_share,
            .link = directive_.link_share,
            .cpu = directive_.cpu_share};
}

MachineShares ShareRule::latest() const {
    const LoadView& view = parts_.control->view();
    return {.device = view.device_latest, .link = view.link_latest, .cpu = view.cpu_latest};
}

const StepModel& ShareRule::model(bool uploading) {
    MachineShares of = shares();
    of.uploading = uploading;
    return parts_.plans->step_model(of);
}

std::uint64_t ShareRule::room(std::uint64_t bytes) const {
    return bytes - std::min(bytes, parts_.keeper->overhead_bytes());
}

void ShareRule::begin(const LoadDirective& directive, const Placement& plan) {
    directive_ = directive;
    budget_ = directive_.budget_bytes;
    usable_ = budget_;
    recent_.push_front({.plan = plan});
    ++n_plans_;
    use_ = {.kept = parts_.keeper->kept(), .executed = plan, .seconds = model().seconds(plan)};
    n_changes_ = parts_.keeper->n_changes();
}

void ShareRule::meet_budget(std::uint64_t budget_bytes) {
    directive_.budget_bytes = budget_bytes;
    ShareKeeper& keeper = *parts_.keeper;
    if (keeper.held_bytes() <= directive_.budget_bytes) {
        return;
    }
    keeper.cancel_upload();
    before_growth_.reset();
    if (keeper.held_bytes() > directive_.budget_bytes) {
        // The streams of this step go on, so that their ring stays.
        const std::uint64_t ring =
            parts_.residency->bytes(cpu_only(parts_.plans->catalog()), keeper.executed());
        shrink(directive_.budget_bytes - std::min(ring, directive_.budget_bytes));
    }
    if (keeper.held_bytes() > directive_.budget_bytes) {
        // Not even the ring has room: the rest of the step runs without.
        Placement without = keeper.executed();
        for (GroupPlacement& placed : without.groups) {
            placed.streamed = 0;
        }
        keeper.execute(without);
    }
    n_changes_ = -1;  // to be looked at before the next step
}

/// What is dropped is gone for a while, so that the choice is the latest sample's: the same
/// program that takes the memory may have begun to keep the device busy.
void ShareRule::shrink(std::uint64_t budget_bytes) {
    ShareKeeper& keeper = *parts_.keeper;
    const std::uint64_t left = room(budget_bytes);
    std::vector<Placement> plans = {keeper.as_droppable(parts_.plans->share_plan(left, latest()))};
    for (const Candidate& candidate : recent_) {
        plans.push_back(keeper.as_droppable(candidate.plan));
    }
    keeper.keep(
        parts_.residency->best_use(parts_.plans->step_model(latest()), keeper.kept(), plans, left)
            .kept);
}

void ShareRule::react(Nanoseconds now) {
    ShareKeeper& keeper = *parts_.keeper;
    if (directive_.budget_bytes < budget_) {
        before_growth_.reset();
    }
    if (keeper.held_bytes() > directive_.budget_bytes) {
        keeper.cancel_upload();
        if (directive_.use_device && keeper.held_bytes() > directive_.budget_bytes) {
            shrink(directive_.budget_bytes);
        }
    }
    note_usable(now);
    note_plan();
    const bool uploading = keeper.uploading();
    use_ = parts_.residency->best_use(
        model(uploading), keeper.kept(), plans_, room(usable_), !uploading);
    keeper.keep(use_.kept);
    keeper.execute(use_.executed);
    without_seconds_ = 0.0;
    if (before_growth_) {
        without_seconds_ =
            parts_.residency->best_use(model(), *before_growth_, plans_, room(usable_)).seconds;
    }
    budget_ = directive_.budget_bytes;
    n_changes_ = keeper.n_changes();
    for (Candidate& candidate : recent_) {
        weigh(candidate);
    }
}

void ShareRule::note_usable(Nanoseconds now) {
    const std::uint64_t budget = directive_.budget_bytes;
    limit_ = parts_.control->growth_limit(now);
    if (limit_ != budget) {
        const std::uint64_t before = limit_ == 0 ? usable_ : limit_;
        usable_ = std::min(budget, std::max(before, parts_.keeper->held_bytes()));
    } else {
        usable_ = budget;
    }
}

void ShareRule::note_plan() {
    plans_.clear();
    if (!directive_.use_device) {
        return;
    }
    const Placement& plan = parts_.plans->share_plan(room(usable_), shares());
    const auto known = std::find_if(
        recent_.begin(), recent_.end(), [&](const Candidate& old) { return old.plan == plan; });
    if (known != recent_.begin()) {
        ++n_plans_;
        Candidate next{.plan = plan};
        if (known != recent_.end()) {
            next = std::move(*known);
            recent_.erase(known);
        }
        recent_.push_front(std::move(next));
        recent_.resize(std::min(recent_.size(), kRecentPlans));
    }
    for (const Candidate& candidate : recent_) {
        plans_.push_back(parts_.keeper->as_droppable(candidate.plan));
    }
}

void ShareRule::weigh(Candidate& candidate) {
    candidate.gain = 0.0;
    candidate.bytes = 0;
    if (plans_.empty() || parts_.keeper->uploading() || limit_ == 0) {
        return;
    }
    const Residency& residency = *parts_.residency;
    const std::uint64_t usable = room(usable_);
    candidate.wanted =
        parts_.keeper->as_droppable(residency.with_plan(use_.kept, candidate.plan, usable));
    const Placement stays = common_residents(use_.kept, candidate.wanted);
    candidate.drops = !(stays == use_.kept);
    for (const ResidencyGrowth& more : residency.growth(model(), stays, candidate.wanted, usable)) {
        candidate.bytes += more.bytes;
    }
    if (candidate.bytes == 0) {
        candidate.owed_seconds = 0.0;
        return;
    }
    // Others of the recent plans rarely know a better use of it.
    const std::array<Placement, 2> plans = {candidate.plan, plans_.front()};
    const auto use = residency.best_use(model(), candidate.wanted, plans, usable);
    const auto meanwhile = residency.best_use(model(true), stays, plans, usable, false);
    candidate.gain = 1.0 - use.seconds / use_.seconds;
    const double link = parts_.plans->full_link_bps() * directive_.link_share;
    const double seconds = link > 0.0 ? static_cast<double>(candidate.bytes) / link : 0.0;
    const double slower = std::max(0.0, 1.0 - use_.seconds / meanwhile.seconds);
    candidate.cost_seconds = 2.0 * to_seconds(kChangeStall) + slower * seconds;
}

void ShareRule::grow(Nanoseconds now) {
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
    if (best != nullptr && !parts_.keeper->uploading()) {
        grow_towards(now, *best);
    }
}

/// Whether a part of a growth is worth something without the rest. Else the next reaction would
/// drop it again, for a ring to stream through.
bool ShareRule::pays_alone(const Placement& stays, const std::vector<ResidencyGrowth>& growth) {
    Placement then = stays;
    for (const ResidencyGrowth& more : growth) {
        then.groups[more.group] = more.then;
    }
    const ResidencyUse use = parts_.residency->best_use(model(), then, plans_, room(usable_));
    return use.kept == then && use.seconds < use_.seconds;
}

void ShareRule::grow_towards(Nanoseconds now, const Candidate& candidate) {
    ShareKeeper& keeper = *parts_.keeper;
    const Placement stays = common_residents(keeper.kept(), candidate.wanted);
    const std::uint64_t resident =
        parts_.residency->bytes(stays, candidate.plan) + keeper.overhead_bytes();
    const std::uint64_t allowed = parts_.control->growth(now, resident, resident + candidate.bytes);
    parts_.control->holds(keeper.held_bytes());
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
        before_growth_ = keeper.kept();
    }
    parts_.control->grew(
        now,
        bytes,
        candidate.cost_seconds * static_cast<double>(bytes) / static_cast<double>(candidate.bytes));
    use_ = parts_.residency->best_use(model(true), stays, plans_, room(usable_), false);
    keeper.keep(stays);
    keeper.execute(use_.executed);
    keeper.upload(growth);
    for (Candidate& other : recent_) {
        other.owed_seconds = 0.0;
    }
    n_changes_ = -1;
}

void ShareRule::before_step(Nanoseconds now, const LoadDirective& directive, bool may_grow) {
    const std::uint64_t version = directive_.version;
    directive_ = directive;
    const ShareKeeper& keeper = *parts_.keeper;
    if (directive_.version != version || n_changes_ != keeper.n_changes() ||
        keeper.held_bytes() > directive_.budget_bytes ||
        limit_ != parts_.control->growth_limit(now)) {
        react(now);
    }
    if (may_grow) {
        grow(now);
    }
    if (n_changes_ != keeper.n_changes()) {
        react(now);
    }
}

void ShareRule::after_step(double seconds) {
    for (Candidate& candidate : recent_) {
        candidate.owed_seconds = std::max(0.0, candidate.owed_seconds + seconds * candidate.gain);
    }
    if (without_seconds_ > 0.0 && use_.seconds > 0.0) {
        parts_.control->gained(seconds, seconds * without_seconds_ / use_.seconds);
    }
}

}  // namespace ballast::scheduler
