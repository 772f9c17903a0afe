// SPDX-License-Identifier: MIT
// Sampling, decoding to text, stop strings and the end of a reply.
#include "engine/runtime/sequence.h"

#include <algorithm>
#include <utility>

#include "engine/runtime/options.h"

namespace ballast::runtime {

Sequence::Sequence(std::shared_ptr<Job> job,
                   const tokenizer::Tokenizer& tokenizer,
                   cache::BlockPool& blocks,
                   int blocks_max,
                   std::span<const TokenId> end_ids,
                   Nanoseconds now)
    : job_(std::move(job)),
      tokenizer_(tokenizer),
      table_(blocks, blocks_max),
      sampler_(sampling_options(end_ids), tokenizer.vocabulary_size()),
      decoder_(tokenizer),
      stop_(job_->stop),
      started_(now) {
    sampler_.observe_prompt(job_->prompt);
    generated_.reserve(static_cast<std::size_t>(job_->max_tokens));
    stats_.prompt_tokens = static_cast<int>(job_->prompt.size());
    stats_.queued = now - job_->created;
}

sampling::SamplingOptions Sequence::sampling_options(std::span<const TokenId> end_ids) const {
    sampling::SamplingOptions options = job_->sampling;
    if (job_->ignore_eos) {
        options.banned.insert(options.banned.end(), end_ids.begin(), end_ids.end());
    }
    return options;
}

std::span<const TokenId> Sequence::next_tokens(int n) const {
    if (decoding()) {
        return std::span<const TokenId>(generated_)
            .subspan(static_cast<std::size_t>(position_) - job_->prompt.size(), 1);
    }
    return prompt_tokens(0, n);
}

std::span<const TokenId> Sequence::prompt_tokens(int skip, int n) const {
    return std::span<const TokenId>(job_->prompt)
        .subspan(static_cast<std::size_t>(position_ + skip), static_cast<std::size_t>(n));
}

void Sequence::rewind(std::int64_t n_kept) {
    position_ = std::min(position_, n_kept);
    if (!decoding()) {
        // A prompt is cut at multiples of the grain, whatever happens.
        position_ -= position_ % kPrefillGrain;
    }
}

bool Sequence::samples_after(int n) const {
    return static_cast<std::size_t>(position_) + static_cast<std::size_t>(n) ==
           job_->prompt.size() + generated_.size();
}

void Sequence::note_time(Nanoseconds now) {
    if (stats_.completion_tokens == 0) {
        first_token_ = now;
        stats_.prefill = now - started_;
    }
    last_token_ = now;
    stats_.decode = now - first_token_;
    ++stats_.completion_tokens;
}

TokenLogprobs Sequence::describe(const sampling::Sample& sample) const {
    TokenLogprobs result;
    result.chosen = {.id = sample.id,
                     .bytes = tokenizer_.token_bytes(sample.id, true),
                     .logprob = sample.logprob};
    for (const sampling::TokenLogprob& entry : sample.top_logprobs) {
        result.top.push_back({.id = entry.id,
                              .bytes = tokenizer_.token_bytes(entry.id, true),
                              .logprob = entry.logprob});
    }
    return result;
}

Result<bool> Sequence::accept(std::span<float> logits, Nanoseconds now) {
    BALLAST_TRY(const sampling::Sample sample, sampler_.sample(logits));
    note_time(now);
    generated_.push_back(sample.id);
    if (tokenizer_.is_end_of_generation(sample.id)) {
        release_last("");
        return end(FinishReason::kStop);
    }
    ++pending_.n_tokens;
    if (job_->sampling.top_logprobs >= 0) {
        pending_.logprobs.push_back(describe(sample));
    }
    std::string text = stop_.feed(decoder_.feed(sample.id));
    const bool full = stats_.completion_tokens >= job_->max_tokens;
    if (!stop_.stopped() && !full) {
        if (!text.empty()) {
            release(std::move(text));
        }
        return false;
    }
    release_last(std::move(text));
    return end(stop_.stopped() ? FinishReason::kStop : FinishReason::kLength);
}

void Sequence::release_last(std::string text) {
    if (!stop_.stopped()) {
        text += stop_.feed(decoder_.finish());
    }
    if (!stop_.stopped()) {
        text += stop_.flush();
    }
    release(std::move(text));
}

void Sequence::release(std::string text) {
    pending_.text = std::move(text);
    released_ = !pending_.text.empty() || pending_.n_tokens > 0;
}

bool Sequence::end(FinishReason reason) {
    reason_ = reason;
    ended_ = true;
    return true;
}

void Sequence::deliver() {
    if (std::exchange(released_, false)) {
        job_->sink->on_text(std::exchange(pending_, {}));
    }
    if (ended_) {
        job_->sink->on_finish(reason_, stats_);
    }
}

void Sequence::fail_with(Error error) {
    job_->sink->on_error(std::move(error));
}

}  // namespace ballast::runtime
