// SPDX-License-Identifier: MIT
// The machine's clock: the only place that reads std::chrono's clocks.
#include "engine/base/clock.h"

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

}  // namespace ballast
