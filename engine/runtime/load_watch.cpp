// SPDX-License-Identifier: MIT
// When to ask the monitor, and what its samples and the pauses are to the rules.
#include "engine/runtime/load_watch.h"

#include <utility>

namespace ballast::runtime {

using scheduler::LoadLevel;

namespace {

// Several events that have come are told one by one.
constexpr int kSamplesAtOnce = 4;
constexpr Nanoseconds kIdleInterval = std::chrono::seconds(1);
constexpr Nanoseconds kLongIdleInterval = std::chrono::seconds(5);
constexpr Nanoseconds kLongIdle = std::chrono::minutes(10);

}  // namespace

LoadWatch::LoadWatch(const Setup& setup) : setup_(setup), control_(setup.rules) {}

void LoadWatch::working(Nanoseconds now) {
    works_ = true;
    last_work_ = now;
    control_.working(now);
}

void LoadWatch::ask(Nanoseconds now) {
    asked_ = now;
    for (int i = 0; i < kSamplesAtOnce; ++i) {
        // Without a monitor it is known that nobody is there, which makes the quiet that growing
        // waits for.
        const auto sample = setup_.monitor != nullptr
                                ? setup_.monitor->sample(now)
                                : std::optional(scheduler::LoadSample{.time = now});
        if (!sample) {
            return;
        }
        process_ = sample->process;
        control_.observe(now, *sample);
        if (sample->event == scheduler::LoadEvent::kNone) {
            return;
        }
    }
}

const scheduler::LoadDirective& LoadWatch::look(Nanoseconds now, std::uint64_t held_bytes) {
    control_.holds(held_bytes);
    const bool paused = setup_.pauses != nullptr && setup_.pauses->paused(now);
    if (paused != paused_) {
        paused_ = paused;
        if (paused) {
            control_.pause();
        } else {
            control_.resume(now);
        }
    }
    const Nanoseconds interval = now - last_work_ >= kLongIdle ? kLongIdleInterval : kIdleInterval;
    if (std::exchange(works_, false) || !asked_ || now - *asked_ >= interval) {
        ask(now);
    }
    directive_ = control_.directive(now);
    return directive_;
}

LoadCause LoadWatch::cause() const {
    switch (directive_.level) {
        case LoadLevel::kPaused:
            return paused_ ? LoadCause::kPaused : LoadCause::kSuspended;
        case LoadLevel::kDegraded:
            return LoadCause::kLost;
        case LoadLevel::kMinimal:
            return control_.room_bytes() == 0 ? LoadCause::kMemory : LoadCause::kBusy;
        case LoadLevel::kFull:
        case LoadLevel::kPolite:
            break;
    }
    return directive_.budget_bytes < control_.room_bytes() ? LoadCause::kIdle : LoadCause::kMemory;
}

std::string LoadWatch::whom() const {
    return process_.empty() ? "others" : process_;
}

}  // namespace ballast::runtime
