// SPDX-License-Identifier: MIT
// How an endpoint words what the engine generates. Two of them: chat and plain completions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/runtime/ports.h"

namespace ballast::api {

/// Counts over a whole request.
struct Usage {
    int prompt_tokens = 0;
    int completion_tokens = 0;
    int cached_tokens = 0;
};

/// One choice of a reply that is sent as a whole.
struct FinishedChoice {
    std::string text;
    std::vector<runtime::TokenLogprobs> logprobs;
    runtime::FinishReason reason = runtime::FinishReason::kStop;
};

/// What every object of one reply says.
struct ReplyHead {
    std::string id;
    std::int64_t created = 0;
    std::string model;
    bool include_usage = false;
    bool logprobs = false;
};

/// Lives in a handler's coroutine. Every string is one line of JSON.
class ReplyFormat {
  public:
    virtual ~ReplyFormat() = default;
    // Chunks of a stream; an empty string stands for none.
    virtual std::string start(int choice) = 0;
    virtual std::string delta(int choice, const runtime::TextDelta& delta) = 0;
    virtual std::string finish(int choice, runtime::FinishReason reason) = 0;
    /// The extra last chunk; `timings` are those of the first choice.
    virtual std::string usage(const Usage& usage, const runtime::JobStats& timings) = 0;
    /// The whole reply.
    virtual std::string whole(const std::vector<FinishedChoice>& choices,
                              const Usage& usage,
                              const runtime::JobStats& timings) = 0;
};

}  // namespace ballast::api
