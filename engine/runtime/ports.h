// SPDX-License-Identifier: MIT
// What the engine needs of the outside and the outside implements: where jobs come from and where
// tokens go. server/queue implements both; tests and `ballast eval` have their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/sampling/sampler.h"

namespace ballast::runtime {

/// Why a reply ended, in the words of the OpenAI API.
enum class FinishReason { kStop, kLength };

/// One token's log-probability with the bytes of each candidate.
struct TokenLogprobs {
    struct Entry {
        TokenId id = 0;
        std::string bytes;  // may be part of a UTF-8 character
        float logprob = 0.0F;
    };
    Entry chosen;
    std::vector<Entry> top;  // best first
};

/// A piece of the reply: whole UTF-8 characters, with stop strings held back. One event may carry
/// text of several tokens or none; log-probabilities come with the text they belong to.
struct TextDelta {
    std::string text;
    int n_tokens = 0;
    std::vector<TokenLogprobs> logprobs;
};

/// Counts and times of one finished job.
struct JobStats {
    int prompt_tokens = 0;
    int completion_tokens = 0;
    int cached_prompt_tokens = 0;
    Nanoseconds queued{0};   // from creation to the first prefill step
    Nanoseconds prefill{0};  // from there to the first token
    Nanoseconds decode{0};   // from the first token to the last
};

/// Receives one job's output. Called on the engine thread only; must not block.
class TokenSink {
  public:
    virtual ~TokenSink() = default;
    /// The prompt has been accepted and its first chunk runs.
    virtual void on_start() = 0;
    virtual void on_text(TextDelta delta) = 0;
    /// Exactly one of these two ends a job.
    virtual void on_finish(FinishReason reason, const JobStats& stats) = 0;
    virtual void on_error(Error error) = 0;
    /// Whether nobody wants the rest: asked between micro-batches. Then no further call is made.
    virtual bool cancelled() const = 0;
};

/// One sequence to generate. Made by the server, read by the engine.
struct Job {
    std::uint64_t id = 0;
    std::vector<TokenId> prompt;  // at least one id
    int max_tokens = 0;           // ≥ 0; prompt + max_tokens ≤ the model's context
    sampling::SamplingOptions sampling;
    std::vector<std::string> stop;  // none is empty
    bool ignore_eos = false;
    Nanoseconds created{0};
    std::shared_ptr<TokenSink> sink;
};

/// Where the engine thread takes its work. All methods but one are called on the engine thread.
class JobSource {
  public:
    virtual ~JobSource() = default;
    /// The oldest job, or null if there is none. Never blocks.
    virtual std::shared_ptr<Job> try_take() = 0;
    /// Sleeps until there may be a job, the source is closed, wake() is called, or the time is
    /// over.
    virtual void wait(Nanoseconds timeout) = 0;
    /// Ends a wait(), or the next one. Any thread.
    virtual void wake() = 0;
    /// No more jobs will come: the engine ends what is running and returns.
    virtual bool closed() const = 0;
};

class Compute;

/// Work that the engine thread does while no job is there and none has been for a second: first
/// come the jobs, and each waits for one slice at most. Called on the engine thread.
class IdleTask {
  public:
    virtual ~IdleTask() = default;
    /// Does a piece of it, 100 ms at most, and may use the compute threads. False: it has ended,
    /// and is not called any more.
    virtual bool run_slice(Compute& compute) = 0;
    /// A job came during the last slice: what it measured is not to be trusted.
    virtual void drop_slice() = 0;
};

/// Hears what the engine does, for metrics. Called on the engine thread; must not block. What a
/// sink is told has been counted before: whoever has read a reply finds it in the metrics.
class EngineObserver {
  public:
    virtual ~EngineObserver() = default;
    /// One forward pass: rows of each class in it and how long it took.
    virtual void on_step(int n_prefill_tokens, int n_decode_tokens, Nanoseconds duration) = 0;
    /// A job left the queue after this long.
    virtual void on_job_started(Nanoseconds queued) = 0;
    /// Time from the job's creation to its first token.
    virtual void on_first_token(Nanoseconds since_created) = 0;
    virtual void on_inter_token(Nanoseconds since_last) = 0;
    /// outcome: "stop", "length", "cancelled" or "error".
    virtual void on_job_ended(const char* outcome, const JobStats& stats) = 0;
    /// Sequences running now, and KV blocks in use of how many.
    virtual void on_load(int n_running, int kv_blocks_used, int kv_blocks_total) = 0;
};

}  // namespace ballast::runtime
