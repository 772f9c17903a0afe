// SPDX-License-Identifier: MIT
// One job while it runs: its tokens, KV blocks, sampler, and the text on its way to the sink.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/cache/block_pool.h"
#include "engine/runtime/ports.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/stop_matcher.h"
#include "engine/tokenizer/stream_decoder.h"
#include "engine/tokenizer/tokenizer.h"

namespace ballast::runtime {

/// Engine thread. First the prompt is fed in chunks, then one token at a time.
class Sequence {
  public:
    /// end_ids: the tokens that end a reply, which ignore_eos bans.
    Sequence(std::shared_ptr<Job> job,
             const tokenizer::Tokenizer& tokenizer,
             cache::BlockPool& blocks,
             int blocks_max,
             std::span<const TokenId> end_ids,
             Nanoseconds now);

    Job& job() { return *job_; }
    cache::BlockTable& table() { return table_; }
    /// Tokens whose keys and values are in the cache.
    std::int64_t position() const { return position_; }
    int prompt_left() const {
        return static_cast<int>(job_->prompt.size()) - static_cast<int>(position_);
    }
    bool decoding() const { return prompt_left() <= 0; }
    /// The next tokens to feed: a chunk of the prompt, or the generated token of this position.
    std::span<const TokenId> next_tokens(int n) const;
    /// n tokens of the prompt after the next `skip` ones.
    std::span<const TokenId> prompt_tokens(int skip, int n) const;
    /// Whether a token is to be sampled after the next n: not where it is known already.
    bool samples_after(int n) const;
    void advance(int n_tokens) { position_ += n_tokens; }
    /// Keys and values are lost but for the first n_kept tokens: the others are fed again, each in
    /// its arithmetic class, so that the reply goes on as it would have. The sink hears nothing of
    /// it.
    void rewind(std::int64_t n_kept);

    /// Samples from the logits after the last fed token. True when the reply has ended. The sink
    /// hears nothing of it before deliver().
    Result<bool> accept(std::span<float> logits, Nanoseconds now);
    /// Hands the sink the text that accept() found, and the end if it was the last.
    void deliver();
    /// Ends the job with an error, in place of deliver().
    void fail_with(Error error);

    bool cancelled() const { return job_->sink->cancelled(); }
    const JobStats& stats() const { return stats_; }
    Nanoseconds last_token_time() const { return last_token_; }
    FinishReason reason() const { return reason_; }

  private:
    sampling::SamplingOptions sampling_options(std::span<const TokenId> end_ids) const;
    void note_time(Nanoseconds now);
    TokenLogprobs describe(const sampling::Sample& sample) const;
    void release(std::string text);
    /// Releases the text and what is still held back, unless a stop string was found.
    void release_last(std::string text);
    bool end(FinishReason reason);

    std::shared_ptr<Job> job_;
    const tokenizer::Tokenizer& tokenizer_;
    cache::BlockTable table_;
    sampling::Sampler sampler_;
    tokenizer::StreamDecoder decoder_;
    sampling::StopMatcher stop_;
    std::int64_t position_ = 0;
    std::vector<TokenId> generated_;
    TextDelta pending_;  // tokens whose text is held back, or about to be delivered
    bool released_ = false;
    bool ended_ = false;
    JobStats stats_;
    FinishReason reason_ = FinishReason::kStop;
    Nanoseconds started_{0};
    Nanoseconds first_token_{0};
    Nanoseconds last_token_{0};
};

}  // namespace ballast::runtime
