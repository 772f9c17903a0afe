// SPDX-License-Identifier: MIT
// A heap, because neither equal times nor their number may change the order.
#include "scheduler/sim/event_queue.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/check.h"

namespace ballast::scheduler {

void EventQueue::at(Nanoseconds time, Action action) {
    BALLAST_CHECK(time >= now_);
    heap_.push_back({.time = time, .number = ++n_put_, .action = std::move(action)});
    std::push_heap(
        heap_.begin(), heap_.end(), [](const Event& a, const Event& b) { return a.later_than(b); });
}

bool EventQueue::run_next() {
    if (heap_.empty()) {
        return false;
    }
    std::pop_heap(
        heap_.begin(), heap_.end(), [](const Event& a, const Event& b) { return a.later_than(b); });
    const Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ = event.time;
    ++n_run_;
    event.action();
    return true;
}

Nanoseconds to_nanoseconds(double seconds) {
    constexpr double kMost = 4e18;
    return Nanoseconds(static_cast<std::int64_t>(std::min(std::ceil(seconds * 1e9), kMost)));
}

}  // namespace ballast::scheduler
