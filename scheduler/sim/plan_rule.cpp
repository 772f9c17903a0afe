// SPDX-License-Identifier: MIT
// Programs that keep their plan, or look at nothing but the time of a step.
#include <cmath>
#include <limits>

#include "scheduler/sim/session_rules.h"

namespace ballast::scheduler {

namespace {

// ATSInfer (arXiv 2607.10183).
constexpr double kDeviation = 0.15;
constexpr int kDeviatingSteps = 5;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// What others leave, as the sample has it; a share that cannot be counts as idle.
SimConditions shares_seen(const LoadSample& sample) {
    const auto left = [](double busy) { return busy >= 0.0 && busy <= 1.0 ? 1.0 - busy : 1.0; };
    return {.device = left(sample.device_busy),
            .link = left(sample.link_busy),
            .cpu = left(sample.cpu_psi)};
}

}  // namespace

PlanRule::PlanRule(const RuleParts& parts, const Placement& plan, bool replans)
    : parts_(parts), plan_(plan), replans_(replans) {}

void PlanRule::begin() {
    parts_.world->begin_with(plan_);
    ++parts_.world->result().n_plans;
}

/// All that is missing at once, with nothing to wait for.
void PlanRule::load_missing() {
    SessionWorld& world = *parts_.world;
    if (world.uploading() || !world.truth().usable()) {
        return;
    }
    const auto growth =
        parts_.residency->growth(parts_.plans->model(shares_), world.kept(), plan_, kUnlimited);
    if (!growth.empty()) {
        world.upload(growth);
    }
}

void PlanRule::before_step() {
    SessionWorld& world = *parts_.world;
    if (world.truth().n_wipes != wipes_) {
        if (!world.truth().suspended && !world.truth().device_works && plan_.n_on_device() > 0) {
            ++world.result().n_requests_lost;  // what it needed is gone
        }
        wipes_ = world.truth().n_wipes;
    }
    if (!world.truth().device_works) {
        world.execute(cpu_only(parts_.plans->catalog()));
        return;
    }
    load_missing();
    const bool uploading = world.uploading();
    SimConditions shares = shares_;
    shares.uploading = uploading;
    const Placement placement =
        parts_.residency
            ->best_use(
                parts_.plans->model(shares), world.kept(), {&plan_, 1}, kUnlimited, !uploading)
            .executed;
    // Once all is there, the plan is what runs, whatever would be faster.
    world.execute(uploading ? placement : plan_);
}

void PlanRule::after_step(std::optional<double> seconds) {
    SessionWorld& world = *parts_.world;
    if (!replans_ || !seconds || world.uploading() || !world.truth().device_works) {
        n_deviating_ = 0;
        return;
    }
    const double forecast = parts_.plans->model(shares_).seconds(world.executed());
    const bool deviates = std::abs(*seconds / forecast - 1.0) > kDeviation;
    n_deviating_ = deviates ? n_deviating_ + 1 : 0;
    if (n_deviating_ >= kDeviatingSteps) {
        n_deviating_ = 0;
        replan();
    }
}

void PlanRule::replan() {
    SessionWorld& world = *parts_.world;
    std::optional<LoadSample> sample = parts_.monitor->sample(world.now());
    while (sample && sample->event != LoadEvent::kNone) {
        sample = parts_.monitor->sample(world.now());
    }
    if (!sample) {
        return;
    }
    shares_ = shares_seen(*sample);
    plan_ = parts_.plans->plan(parts_.memory.room(sample->others_bytes), shares_);
    ++world.result().n_plans;
    world.keep(common_residents(world.kept(), plan_));
}

}  // namespace ballast::scheduler
