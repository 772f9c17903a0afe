// SPDX-License-Identifier: MIT
// A job is published by raising the generation; a worker that sees it runs its share and counts
// itself off. Waiting is a bounded spin, then a yield, then (workers only) a sleep.
#include "engine/base/thread_pool.h"

#include <sched.h>

#include "engine/base/check.h"
#include "engine/base/pause.h"

namespace ballast {

namespace {

// About 20 µs of pauses: longer than the gap between two ops of a step, far shorter than a step.
constexpr int kSpinPauses = 2000;
constexpr int kYields = 50;

}  // namespace

ThreadPool::ThreadPool(int n_threads) {
    BALLAST_CHECK(n_threads >= 1);
    for (int i = 1; i < n_threads; ++i) {
        workers_.push_back(std::make_unique<Thread>());
        workers_.back()->start("compute-" + std::to_string(i),
                               [this, i](StopToken stop) { work(stop, i); });
    }
}

ThreadPool::~ThreadPool() {
    {
        const std::lock_guard lock(mutex_);
        stopping_.store(true);
    }
    wake_.notify_all();
    for (auto& worker : workers_) {
        worker->stop();
    }
}

void ThreadPool::run_erased(Function function, const void* object) {
    if (workers_.empty()) {
        function(object, 0);
        return;
    }
    function_ = function;
    object_ = object;
    unfinished_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    generation_.fetch_add(1);  // sequentially consistent: pairs with the check before sleeping
    if (sleeping_.load() > 0) {
        const std::lock_guard lock(mutex_);
        wake_.notify_all();
    }
    function(object, 0);
    for (int spins = 0; unfinished_.load(std::memory_order_acquire) > 0; ++spins) {
        if (spins < kSpinPauses) {
            pause_cpu();
        } else {
            sched_yield();
        }
    }
}

void ThreadPool::work(StopToken /*stop*/, int index) {
    std::uint64_t seen = 0;
    while (true) {
        for (int i = 0; generation_.load(std::memory_order_acquire) == seen; ++i) {
            if (stopping_.load(std::memory_order_relaxed)) {
                return;
            }
            if (i < kSpinPauses) {
                pause_cpu();
            } else if (i < kSpinPauses + kYields) {
                sched_yield();
            } else {
                std::unique_lock lock(mutex_);
                sleeping_.fetch_add(1);
                wake_.wait(lock, [&] { return generation_.load() != seen || stopping_.load(); });
                sleeping_.fetch_sub(1);
            }
        }
        ++seen;
        function_(object_, index);
        unfinished_.fetch_sub(1, std::memory_order_release);
    }
}

}  // namespace ballast
