// SPDX-License-Identifier: MIT
// Each change of the rate settles what is done and puts the end anew.
#include "scheduler/sim/sim_lane.h"

#include <algorithm>
#include <utility>

namespace ballast::scheduler {

void SimLane::run(Job job) {
    jobs_.push_back(std::move(job));
    if (jobs_.size() == 1) {
        begin_next();
        changed_();
    }
}

void SimLane::set_rate(double rate) {
    if (rate == rate_) {
        return;
    }
    settle();
    rate_ = rate;
    if (busy()) {
        schedule();
    }
}

void SimLane::begin_next() {
    left_ = jobs_.front().amount;
    since_ = events_.now();
    began_ = since_;
    schedule();
}

void SimLane::settle() {
    if (busy()) {
        const Nanoseconds passed = events_.now() - since_;
        busy_time_ += passed;
        left_ = std::max(0.0, left_ - to_seconds(passed) * rate_);
    }
    since_ = events_.now();
}

void SimLane::schedule() {
    const std::uint64_t version = ++version_;
    if (rate_ <= 0.0 && left_ > 0.0) {
        return;
    }
    const double seconds = left_ > 0.0 ? left_ / rate_ : 0.0;
    events_.after(to_nanoseconds(seconds), [this, version] {
        if (version == version_) {
            finish();
        }
    });
}

void SimLane::finish() {
    settle();
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    done_ += job.amount;
    if (observer_) {
        observer_(job, began_, events_.now());
    }
    ++version_;
    if (busy()) {
        begin_next();
    }
    changed_();
    job.done();
}

}  // namespace ballast::scheduler
