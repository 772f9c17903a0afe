// SPDX-License-Identifier: MIT
// A memory that CPU and copies share, for machines that are only played: while the CPU reads, a
// copy gets what that leaves.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "engine/base/clock.h"

namespace ballast::backend {

/// How far a copy is whose rate changes on its way. Pure.
class CopyProgress {
  public:
    CopyProgress(std::uint64_t bytes, Nanoseconds begin)
        : left_(static_cast<double>(bytes)), since_(begin) {}

    /// At this rate (1e9 bytes a second) from where it was settled up to `now`.
    void settle(Nanoseconds now, double gbps);
    /// When it ends if the rate stays; nothing at a rate of 0.
    std::optional<Nanoseconds> end(double gbps) const;

  private:
    double left_;
    Nanoseconds since_;
};

/// Rates are 1e9 bytes a second. The CPU's lane and one copying thread use it together; the clock
/// outlives it.
class PacedMemory {
  public:
    /// `dram_gbps`: what it delivers to the CPU and to copies together; 0: any amount.
    PacedMemory(const Clock& clock, double dram_gbps) : clock_(clock), dram_gbps_(dram_gbps) {}

    /// From now on; 0: it does not read.
    void set_cpu_reads(double gbps);
    /// Returns when a copy that began at `begin` has crossed a link of this rate (0: at once), or
    /// after interrupt(). Gives the time when it had crossed.
    Nanoseconds cross(std::uint64_t bytes, double link_gbps, Nanoseconds begin);
    /// No copy waits any more.
    void interrupt();

  private:
    /// The copy that crosses now.
    struct Crossing {
        CopyProgress progress;
        double link_gbps = 0.0;
    };
    double rate(double link_gbps) const;  // with the lock held

    const Clock& clock_;
    const double dram_gbps_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Crossing> crossing_;
    double cpu_gbps_ = 0.0;
    std::uint64_t n_changes_ = 0;
    bool interrupted_ = false;
};

/// The last part of a wait is spent looking at the clock, because a thread that sleeps is woken
/// some 50 µs late.
constexpr Nanoseconds kWatchedWait = std::chrono::microseconds(100);
/// Looks at the clock, and lets others run, until it is that time.
void watch_until(const Clock& clock, Nanoseconds time);

/// Returns at that time, or soon after `stop()` is true and the condition was notified. The lock,
/// under which stop() is asked, is not held while the clock is watched.
template <class Stop>
void wait_until(const Clock& clock,
                std::unique_lock<std::mutex>& lock,
                std::condition_variable& condition,
                Nanoseconds time,
                const Stop& stop) {
    for (Nanoseconds left = time - clock.now(); left > kWatchedWait && !stop();
         left = time - clock.now()) {
        condition.wait_for(lock, left - kWatchedWait);
    }
    if (!stop()) {
        lock.unlock();
        watch_until(clock, time);
        lock.lock();
    }
}

}  // namespace ballast::backend
