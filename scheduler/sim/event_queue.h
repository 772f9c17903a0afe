// SPDX-License-Identifier: MIT
// Simulated time: what is to happen, in order of time, and among equals in the order in which it
// was asked for. So a run is the same each time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/base/clock.h"

namespace ballast::scheduler {

/// Owned by one simulation, on one thread.
class EventQueue {
  public:
    using Action = std::function<void()>;

    Nanoseconds now() const { return now_; }
    /// Not before now.
    void at(Nanoseconds time, Action action);
    void after(Nanoseconds delay, Action action) { at(now_ + delay, std::move(action)); }
    /// Moves to the next event and lets it happen; false if there is none.
    bool run_next();
    std::uint64_t n_run() const { return n_run_; }
    /// When the next event is due; nothing if there is none.
    std::optional<Nanoseconds> next_time() const {
        return heap_.empty() ? std::optional<Nanoseconds>() : heap_.front().time;
    }

  private:
    struct Event {
        Nanoseconds time{0};
        std::uint64_t number = 0;
        Action action = {};
        bool later_than(const Event& other) const {
            return time != other.time ? time > other.time : number > other.number;
        }
    };

    std::vector<Event> heap_;  // the earliest in front
    Nanoseconds now_{0};
    std::uint64_t n_put_ = 0;
    std::uint64_t n_run_ = 0;
};

/// The next whole nanosecond; a time that never comes is some centuries away.
Nanoseconds to_nanoseconds(double seconds);

}  // namespace ballast::scheduler
