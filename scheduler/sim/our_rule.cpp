// SPDX-License-Identifier: MIT
// Asks the monitor at each step, and now and then within one.
#include "scheduler/sim/session_rules.h"

namespace ballast::scheduler {

namespace {

// Several events that have come are told one by one.
constexpr int kSamplesAtOnce = 4;

LoadRules with_memory(LoadRules rules, const DeviceMemory& memory) {
    rules.memory = memory;
    return rules;
}

}  // namespace

OurRule::OurRule(const RuleParts& parts, const SessionOptions& options)
    : parts_(parts),
      control_(with_memory(options.rules, parts.memory)),
      share_({.keeper = parts.world,
              .plans = parts.plans,
              .residency = parts.residency,
              .control = &control_}),
      poll_(options.poll) {}

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
        if (sample->event == LoadEvent::kNone) {
            return;
        }
    }
}

void OurRule::begin() {
    control_.working(Nanoseconds{0});
    observe();
    const LoadDirective& directive = control_.directive(Nanoseconds{0});
    const Placement& plan = parts_.plans->plan(directive.budget_bytes,
                                               {.device = directive.device_share,
                                                .link = directive.link_share,
                                                .cpu = directive.cpu_share});
    parts_.world->begin_with(plan);
    share_.begin(directive, plan);
    count_plans();
    parts_.world->show(directive.level);
}

/// In the middle of a step only what must go goes; the rest of the step runs with what stays.
void OurRule::poll() {
    observe();
    share_.meet_budget(control_.directive(parts_.world->now()).budget_bytes);
}

void OurRule::before_step() {
    SessionWorld& world = *parts_.world;
    control_.working(world.now());
    observe();
    if (control_.may_retry(world.now()) && world.truth().device_works) {
        control_.device_back(world.now());
    }
    const LoadDirective directive = control_.directive(world.now());
    world.show(directive.level);
    share_.before_step(world.now(), directive);
    count_plans();
}

void OurRule::after_step(std::optional<double> seconds) {
    if (seconds) {
        share_.after_step(*seconds);
    } else if (!parts_.world->truth().device_works) {
        control_.device_lost(parts_.world->now());
    }
}

}  // namespace ballast::scheduler
