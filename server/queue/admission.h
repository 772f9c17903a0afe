// SPDX-License-Identifier: MIT
// Whether a request may enter the queue: the one place that says so, asked before anything is sent
// to the client.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "engine/base/result.h"
#include "server/queue/options.h"
#include "server/queue/request_queue.h"

namespace ballast::queue {

/// Sizes that decide whether a request fits the context.
struct ContextDemand {
    int n_prompt = 0;
    int n_reply_max = -1;  // −1: the client left it open
    int n_context = 0;
};

/// What a request may use, or why it does not fit.
struct ContextVerdict {
    enum class Kind { kFits, kPromptTooLong, kSumTooLong };
    Kind kind = Kind::kFits;
    int max_tokens = 0;  // kFits: tokens the reply may have
};

/// Called on io threads; stop() on any.
class Admission {
  public:
    Admission(RequestQueue& queue, const QueueOptions& options);

    /// Pure: whether prompt and reply fit. A prompt that leaves no room for a reply does not,
    /// unless no reply is wanted; where the client left the length open it gets what is left, or
    /// reply_default tokens if that is above 0 and less.
    static ContextVerdict check_context(ContextDemand demand, int reply_default);

    /// Queues all jobs or none. Errors: kOverloaded, kCancelled (stopping).
    Status submit(std::vector<std::shared_ptr<runtime::Job>> jobs);
    /// From now on nothing is admitted.
    void stop();
    bool stopping() const { return stopping_.load(std::memory_order_acquire); }
    std::size_t stream_bytes_max() const;
    /// Jobs that may wait at the same time.
    std::size_t depth() const { return static_cast<std::size_t>(options_.depth); }

  private:
    RequestQueue& queue_;
    const QueueOptions options_;
    std::atomic<bool> stopping_{false};
};

}  // namespace ballast::queue
