// SPDX-License-Identifier: MIT
// Keeps a second of quiet before the idle task.
#include "engine/runtime/idle_turns.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/base/log.h"

namespace ballast::runtime {

namespace {

constexpr Nanoseconds kIdleWait = std::chrono::milliseconds(500);
// A conversation's next request, and the first one after the start, come within this time and are
// not to meet a slice of the idle task.
constexpr Nanoseconds kQuietBeforeIdleTask = std::chrono::seconds(1);

}  // namespace

void IdleTurns::busy(Nanoseconds now) {
    last_busy_ = now;
    if (std::exchange(slice_fresh_, false) && task_ != nullptr) {
        task_->drop_slice();
    }
}

void IdleTurns::pass(JobSource& source, Compute& compute, Nanoseconds now) {
    slice_fresh_ = false;
    const Nanoseconds quiet = now - last_busy_;
    if (task_ == nullptr) {
        source.wait(kIdleWait);
    } else if (quiet < kQuietBeforeIdleTask) {
        source.wait(std::min<Nanoseconds>(kIdleWait, kQuietBeforeIdleTask - quiet));
    } else {
        run_slice(compute);
    }
}

void IdleTurns::run_slice(Compute& compute) {
    try {
        if (!task_->run_slice(compute)) {
            task_ = nullptr;
        }
        slice_fresh_ = true;
    } catch (const std::exception& error) {
        log_warning("the engine's idle task ends: {}", error.what());
        task_ = nullptr;
    }
}

}  // namespace ballast::runtime
