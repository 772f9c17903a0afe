// SPDX-License-Identifier: MIT
// The machine's clock: the only place that reads std::chrono's clocks.
#include "engine/base/clock.h"

#include <time.h>

namespace ballast {

Nanoseconds SystemClock::now() const {
    return std::chrono::duration_cast<Nanoseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
}

std::int64_t SystemClock::unix_seconds() const {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

Nanoseconds SystemClock::slept() const {
#ifdef __linux__
    const auto read = [](clockid_t clock) {
        timespec time = {};
        ::clock_gettime(clock, &time);
        return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
    };
    // In this order the difference is never too small.
    const Nanoseconds awake = read(CLOCK_MONOTONIC);
    return read(CLOCK_BOOTTIME) - awake;
#else
    return Nanoseconds{0};
#endif
}

}  // namespace ballast
