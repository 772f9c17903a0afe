// SPDX-License-Identifier: MIT
// From logits to a token: penalties, bias, temperature, top-k, top-p, min-p, and a seeded draw.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/base/rng.h"

namespace ballast::sampling {

/// What a request may ask for. Defaults are the OpenAI API's: temperature 1, nothing cut.
struct SamplingOptions {
    float temperature = 1.0F;  // 0: the most probable token, exactly
    int top_k = 0;             // 0: off
    float top_p = 1.0F;
    float min_p = 0.0F;
    float repetition_penalty = 1.0F;  // over prompt and reply (Keskar et al. 2019, CTRL)
    float presence_penalty = 0.0F;    // over the reply
    float frequency_penalty = 0.0F;   // over the reply
    std::uint64_t seed = 0;
    /// Added before everything else; −100 and below bans.
    std::vector<std::pair<TokenId, float>> logit_bias = {};
    int top_logprobs = -1;             // −1: none wanted; 0: the chosen token's only; up to 20
    std::vector<TokenId> banned = {};  // never chosen (ignore_eos)
};

/// A candidate and its natural-log probability under the unmodified softmax of the logits.
struct TokenLogprob {
    TokenId id = 0;
    float logprob = 0.0F;
};

struct Sample {
    TokenId id = 0;
    float logprob = 0.0F;                    // valid if top_logprobs >= 0
    std::vector<TokenLogprob> top_logprobs;  // best first
};

/// One sequence's sampler: its random numbers and the counts for its penalties. Lives on the
/// engine thread. The same seed, options and logits give the same tokens.
class Sampler {
  public:
    Sampler(SamplingOptions options, int vocabulary_size);

    /// Counts prompt tokens for the repetition penalty.
    void observe_prompt(std::span<const TokenId> ids);
    /// Chooses a token and counts it. logits: [vocabulary], may be changed; if every logit is
    /// non-finite the result is kInternal. Takes no memory unless log-probabilities are wanted.
    Result<Sample> sample(std::span<float> logits);

  private:
    bool has_penalties() const;
    void count(TokenId id, bool in_reply);
    void apply_bias(std::span<float> logits) const;
    void apply_penalties(std::span<float> logits) const;
    /// Fills candidates_ with the finite logits as weights exp((logit − best) / temperature).
    void weigh(std::span<const float> logits, float best);
    void keep_top_k();
    void keep_top_p();
    void keep_min_p();
    TokenId draw();
    void report_logprobs(Sample& sample) const;

    SamplingOptions options_;
    Rng rng_;
    std::vector<TokenId> seen_ids_;            // of prompt and reply, each once
    std::vector<std::uint8_t> is_seen_;        // [vocabulary], empty if no penalty needs it
    std::vector<std::uint16_t> reply_counts_;  // likewise
    std::vector<TokenLogprob> candidates_;     // scratch; the second field holds a weight
    std::vector<float> unmodified_;            // scratch, if log-probabilities are wanted
};

/// log-softmax of logits at one id, in double precision. logits: [vocabulary]. Logits that are not
/// finite count as impossible.
double log_probability(std::span<const float> logits, TokenId id);

}  // namespace ballast::sampling
