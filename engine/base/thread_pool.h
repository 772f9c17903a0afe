// SPDX-License-Identifier: MIT
// The compute threads. The engine thread takes part in the work itself, so a pool of N threads
// starts N - 1. Between jobs the workers spin briefly, then sleep: an idle server uses no CPU.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/base/thread.h"

namespace ballast {

/// Runs one parallel job at a time. Owned by the engine; run() is called from one thread only.
class ThreadPool {
  public:
    /// n_threads >= 1, the caller included.
    explicit ThreadPool(int n_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return static_cast<int>(workers_.size()) + 1; }

    /// Calls job(thread_index) once on each thread, 0 <= thread_index < size(), and returns when
    /// all have ended. The job must not throw.
    template <class Job>
    void run(const Job& job) {
        run_erased([](const void* object, int index) { (*static_cast<const Job*>(object))(index); },
                   &job);
    }

  private:
    using Function = void (*)(const void*, int);
    void run_erased(Function function, const void* object);
    void work(StopToken stop, int index);

    std::vector<std::unique_ptr<Thread>> workers_;
    Function function_ = nullptr;
    const void* object_ = nullptr;
    alignas(64) std::atomic<std::uint64_t> generation_{0};
    alignas(64) std::atomic<int> unfinished_{0};
    alignas(64) std::atomic<int> sleeping_{0};
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    std::condition_variable wake_;
};

}  // namespace ballast
