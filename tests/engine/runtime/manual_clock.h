// SPDX-License-Identifier: MIT
// Clocks that a test owns: one that stands until it is moved, one that moves by itself whenever it
// is asked.
#pragma once

#include <atomic>

#include "engine/base/clock.h"

namespace ballast::test {

class ManualClock final : public Clock {
  public:
    Nanoseconds now() const override { return Nanoseconds(ns_.load()); }
    std::int64_t unix_seconds() const override { return 0; }
    void advance(Nanoseconds by) { ns_.fetch_add(by.count()); }

  private:
    std::atomic<std::int64_t> ns_{0};
};

class SteppingClock final : public Clock {
  public:
    explicit SteppingClock(Nanoseconds step) : step_(step) {}
    Nanoseconds now() const override { return Nanoseconds(ns_.fetch_add(step_.count())); }
    std::int64_t unix_seconds() const override { return 1'769'860'800; }  // 2026-01-31 12:00

  private:
    const Nanoseconds step_;
    mutable std::atomic<std::int64_t> ns_{0};
};

}  // namespace ballast::test
