// SPDX-License-Identifier: MIT
// The decisions; their wording is the API's.
#include "server/queue/admission.h"

#include <algorithm>
#include <utility>

namespace ballast::queue {

Admission::Admission(RequestQueue& queue, const QueueOptions& options)
    : queue_(queue), options_(options) {}

ContextVerdict Admission::check_context(ContextDemand demand, int reply_default) {
    using Kind = ContextVerdict::Kind;
    const int room = demand.n_context - demand.n_prompt;
    if (room < 0 || (room == 0 && demand.n_reply_max != 0)) {
        return {Kind::kPromptTooLong, 0};
    }
    if (demand.n_reply_max < 0) {
        return {Kind::kFits, reply_default > 0 ? std::min(reply_default, room) : room};
    }
    if (demand.n_reply_max > room) {
        return {Kind::kSumTooLong, 0};
    }
    return {Kind::kFits, demand.n_reply_max};
}

Status Admission::submit(std::vector<std::shared_ptr<runtime::Job>> jobs) {
    if (stopping()) {
        return fail(ErrorCode::kCancelled, "The server is stopping.");
    }
    return queue_.push(std::move(jobs));
}

void Admission::stop() {
    stopping_.store(true, std::memory_order_release);
}

std::size_t Admission::stream_bytes_max() const {
    return static_cast<std::size_t>(options_.stream_bytes_max);
}

}  // namespace ballast::queue
