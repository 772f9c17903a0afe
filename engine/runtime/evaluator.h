// SPDX-License-Identifier: MIT
// Runs a model on given tokens, without sampling: for perplexity, logits and measurements.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/runtime/compute.h"
#include "engine/runtime/loaded_model.h"

namespace ballast::runtime {

/// Which logits of the fed tokens are wanted.
enum class Wanted { kNone, kLast, kAll };

/// Feeds token ids to a few independent sequences. One thread.
class Evaluator {
  public:
    /// Called with the sequence, the position and the logits [vocabulary] of what follows it.
    using OnLogits =
        std::function<void(int sequence, std::int64_t position, std::span<const float>)>;

    /// n_sequences of `context` positions each. Errors as Compute::create.
    static Result<std::unique_ptr<Evaluator>> create(const model::Model& model,
                                                     const EngineOptions& options,
                                                     int n_sequences,
                                                     int context);

    /// Appends ids to one sequence in the given arithmetic class. Decode feeds one token a step.
    /// kTooLarge if they exceed the context; else the errors of Backend::submit().
    Status feed(int sequence,
                std::span<const TokenId> ids,
                ArithmeticClass arithmetic,
                Wanted wanted,
                const OnLogits& on_logits);
    /// Appends one token to each of the sequences 0..ids.size()−1 in one decode step. As feed().
    Status feed_decode(std::span<const TokenId> ids, const OnLogits& on_logits);
    /// Forgets a sequence's tokens.
    void reset(int sequence);

    std::int64_t position(int sequence) const;
    Compute& compute() { return *compute_; }

  private:
    struct Sequence {
        std::unique_ptr<cache::BlockTable> table;
        std::int64_t position = 0;
    };
    Evaluator() = default;
    Status step(int first_sequence,
                int n_sequences,
                std::span<const TokenId> ids,
                bool decode,
                std::span<const std::int32_t> outputs,
                const OnLogits& on_logits);

    std::unique_ptr<Compute> compute_;
    std::vector<Sequence> sequences_;
    int context_ = 0;
};

/// Perplexity of a text: the whole text is tokenised once, cut into windows of `context` ids;
/// where the vocabulary adds BOS the first id of each window is replaced by it, and the ids in the
/// second half of each window are scored (the method of llama-perplexity).
struct PerplexityOptions {
    int context = 512;
    int chunks = 0;  // 0: all
    ArithmeticClass arithmetic = ArithmeticClass::kPrefill;
};

/// Calls on_chunk(chunk, running perplexity) after each window; returns the last. kInvalidRequest
/// if the text has fewer ids than one window.
Result<double> perplexity(const LoadedModel& model,
                          const EngineOptions& engine,
                          std::string_view text,
                          const PerplexityOptions& options,
                          const std::function<void(int, double)>& on_chunk);

}  // namespace ballast::runtime
