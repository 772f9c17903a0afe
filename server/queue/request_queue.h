// SPDX-License-Identifier: MIT
// The bounded hand-over of jobs from io threads to the engine thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/base/result.h"
#include "engine/runtime/ports.h"

namespace ballast::queue {

/// First in, first out. push() and close() from any thread; the JobSource side on the engine
/// thread.
class RequestQueue final : public runtime::JobSource {
  public:
    explicit RequestQueue(int depth_max);

    /// Takes all of the jobs or none and wakes the engine. Errors: kOverloaded if they do not fit,
    /// kCancelled once the queue is closed. Jobs that nobody waits for any more make room.
    Status push(std::vector<std::shared_ptr<runtime::Job>> jobs);
    /// No job is taken any more; those that wait are answered kCancelled. Wakes the engine.
    void close();
    /// Jobs that wait now.
    std::size_t size() const;

    std::shared_ptr<runtime::Job> try_take() override;
    void wait(Nanoseconds timeout) override;
    void wake() override;
    bool closed() const override;

  private:
    void drop_cancelled();  // with mutex_ held

    const std::size_t depth_max_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::shared_ptr<runtime::Job>> jobs_;
    bool closed_ = false;
    bool woken_ = false;
};

}  // namespace ballast::queue
