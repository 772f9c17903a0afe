// SPDX-License-Identifier: MIT
// A deque under a mutex; the engine sleeps on the condition variable while it has nothing to do.
#include "server/queue/request_queue.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace ballast::queue {

namespace {

constexpr const char* kStopping = "The server is stopping.";

}  // namespace

RequestQueue::RequestQueue(int depth_max) : depth_max_(static_cast<std::size_t>(depth_max)) {
    BALLAST_CHECK(depth_max > 0);
}

Status RequestQueue::push(std::vector<std::shared_ptr<runtime::Job>> jobs) {
    {
        const std::lock_guard lock(mutex_);
        if (closed_) {
            return fail(ErrorCode::kCancelled, kStopping);
        }
        if (jobs_.size() + jobs.size() > depth_max_) {
            drop_cancelled();
        }
        if (jobs_.size() + jobs.size() > depth_max_) {
            return fail(ErrorCode::kOverloaded,
                        "The server is busy: " + std::to_string(jobs_.size()) +
                            " requests wait already. Try again later.");
        }
        for (auto& job : jobs) {
            jobs_.push_back(std::move(job));
        }
    }
    changed_.notify_one();
    return {};
}

void RequestQueue::drop_cancelled() {
    std::erase_if(jobs_, [](const auto& job) { return job->sink->cancelled(); });
}

void RequestQueue::close() {
    std::deque<std::shared_ptr<runtime::Job>> waiting;
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        waiting.swap(jobs_);
    }
    changed_.notify_all();
    for (const auto& job : waiting) {
        job->sink->on_error(Error{ErrorCode::kCancelled, kStopping});
    }
}

std::size_t RequestQueue::size() const {
    const std::lock_guard lock(mutex_);
    return jobs_.size();
}

std::shared_ptr<runtime::Job> RequestQueue::try_take() {
    const std::lock_guard lock(mutex_);
    while (!jobs_.empty()) {
        std::shared_ptr<runtime::Job> job = std::move(jobs_.front());
        jobs_.pop_front();
        if (!job->sink->cancelled()) {
            return job;
        }
    }
    return nullptr;
}

void RequestQueue::wait(Nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [this] { return closed_ || woken_ || !jobs_.empty(); });
    woken_ = false;
}

void RequestQueue::wake() {
    {
        const std::lock_guard lock(mutex_);
        woken_ = true;
    }
    changed_.notify_all();
}

bool RequestQueue::closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
}

}  // namespace ballast::queue
