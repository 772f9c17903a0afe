// SPDX-License-Identifier: MIT
// One thing that does one job at a time: a device, a CPU, a link. Its rate may change at any
// moment, also in the middle of a job.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "scheduler/sim/event_queue.h"

namespace ballast::scheduler {

/// A job has an amount (of seconds at full pace, or of bytes) and the lane a rate (amount a
/// second).
class SimLane {
  public:
    struct Job {
        double amount = 0.0;
        /// Bytes a second that it takes from the memory, at the rate 1.
        double intensity = 0.0;
        int group = -1;  // of the model, for traces; −1: none
        EventQueue::Action done = {};
    };
    using Observer = std::function<void(const Job&, Nanoseconds begin, Nanoseconds end)>;

    SimLane(EventQueue& events, double rate) : events_(events), rate_(rate) {}
    SimLane(const SimLane&) = delete;
    SimLane& operator=(const SimLane&) = delete;

    /// After those before it.
    void run(Job job);
    /// From now on; 0: it waits.
    void set_rate(double rate);
    /// Called whenever another job, or none, is being done.
    void on_change(EventQueue::Action action) { changed_ = std::move(action); }

    /// Told of each job when it has been done; begin: when the lane took it up.
    void on_done(Observer observer) { observer_ = std::move(observer); }

    bool busy() const { return !jobs_.empty(); }
    double rate() const { return rate_; }
    /// Of the job that is being done, at its present rate; 0 if there is none.
    double intensity() const { return busy() ? jobs_.front().intensity : 0.0; }
    /// Time in which it had a job, and amounts that are done; up to the last change.
    Nanoseconds busy_time() const { return busy_time_; }
    double amount_done() const { return done_; }

  private:
    void begin_next();
    void settle();  // what has been done since the last change
    void schedule();
    void finish();

    EventQueue& events_;
    double rate_;
    std::deque<Job> jobs_;       // the first is being done
    double left_ = 0.0;          // of the first
    Nanoseconds since_{0};       // settled up to here
    std::uint64_t version_ = 0;  // an end that was scheduled under another one does not count
    EventQueue::Action changed_ = [] {};
    Observer observer_ = {};
    Nanoseconds began_{0};  // the job that is being done
    Nanoseconds busy_time_{0};
    double done_ = 0.0;
};

}  // namespace ballast::scheduler
