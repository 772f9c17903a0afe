// SPDX-License-Identifier: MIT
// All time comes through a Clock that is passed in, so that tests and the simulator own it.
#pragma once

#include <chrono>
#include <cstdint>

namespace ballast {

using Nanoseconds = std::chrono::nanoseconds;

constexpr double to_seconds(Nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

/// A source of time. Implementations are safe to call from any thread.
class Clock {
  public:
    virtual ~Clock() = default;
    /// Monotonic time since an arbitrary start, for durations.
    virtual Nanoseconds now() const = 0;
    /// Seconds since 1970-01-01 UTC, for `created` fields and dates in templates.
    virtual std::int64_t unix_seconds() const = 0;
    /// How long the computer has slept so far, which now() does not count; 0 where that is not
    /// known.
    virtual Nanoseconds slept() const { return Nanoseconds{0}; }
};

/// The machine's clock.
class SystemClock final : public Clock {
  public:
    Nanoseconds now() const override;
    std::int64_t unix_seconds() const override;
    /// Known on Linux.
    Nanoseconds slept() const override;
};

}  // namespace ballast
