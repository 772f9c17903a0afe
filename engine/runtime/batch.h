// SPDX-License-Identifier: MIT
// The tokens of one step: one of each sequence that decodes, and a chunk of the oldest prompts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/backend/step_context.h"
#include "engine/runtime/sequence.h"

namespace ballast::runtime {

/// How many of `wanted` tokens from this position end at a multiple of the grain, or all that is
/// left of the prompt. Prompts are cut at absolute positions, so that the cut does not depend on
/// what else runs.
int cut_chunk(std::int64_t position, int wanted, int left);

/// Built anew for each step, in memory taken once. Engine thread.
class Batch {
  public:
    /// A sequence's part of the step.
    struct Member {
        Sequence* sequence = nullptr;
        int n_tokens = 0;
        int output = -1;  // which logits are its own; −1: none yet
    };

    Batch(int rows_max, int sequences_max);

    /// Decode rows first, then prompt tokens, oldest sequence first, up to prefill_tokens in all.
    /// Chunks end at multiples of 64 positions. kOverloaded if KV blocks run out.
    Status build(std::span<const std::unique_ptr<Sequence>> sequences, int prefill_tokens);

    backend::StepInput input() const;
    std::span<const Member> members() const { return members_; }
    int n_decode() const { return n_decode_; }
    int n_prefill() const { return static_cast<int>(tokens_.size()) - n_decode_; }

  private:
    Status add(Sequence& sequence, int n_tokens, bool wants_logits);

    std::vector<TokenId> tokens_;
    std::vector<backend::SequenceRows> rows_;
    std::vector<std::int32_t> outputs_;
    std::vector<Member> members_;
    int n_decode_ = 0;
};

}  // namespace ballast::runtime
