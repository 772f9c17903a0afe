// SPDX-License-Identifier: MIT
// Teacher forcing and perplexity.
#include "engine/runtime/evaluator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/sampling/sampler.h"

namespace ballast::runtime {

namespace {

// Prompt tokens of one step when logits of all are wanted: 64 rows of 262 144 floats are 64 MiB.
constexpr int kRows = 64;
// Prompt tokens of one step when they are not.
constexpr int kRowsWithoutLogits = 512;
// Windows of a perplexity run that decode at once: each has its own keys and values.
constexpr int kWindowsTogether = 64;

}  // namespace

Result<std::unique_ptr<Evaluator>> Evaluator::create(const model::Model& model,
                                                     const EngineOptions& options,
                                                     int n_sequences,
                                                     int context) {
    std::unique_ptr<Evaluator> evaluator(new Evaluator());
    const int outputs = std::max(kRows, n_sequences);
    BALLAST_TRY(evaluator->compute_,
                Compute::create(model,
                                options,
                                {.sequences = n_sequences,
                                 .context = context,
                                 .rows = std::max(kRowsWithoutLogits, n_sequences),
                                 .outputs = outputs}));
    evaluator->context_ = context;
    for (int i = 0; i < n_sequences; ++i) {
        evaluator->sequences_.push_back(
            {std::make_unique<cache::BlockTable>(evaluator->compute_->blocks(),
                                                 evaluator->compute_->blocks_per_sequence()),
             0});
    }
    return evaluator;
}

Status Evaluator::step(int first_sequence,
                       int n_sequences,
                       std::span<const TokenId> ids,
                       bool decode,
                       std::span<const std::int32_t> outputs,
                       const OnLogits& on_logits) {
    std::vector<backend::SequenceRows> rows;
    const int rows_each = static_cast<int>(ids.size()) / n_sequences;
    for (int i = 0; i < n_sequences; ++i) {
        Sequence& sequence = sequences_[static_cast<std::size_t>(first_sequence + i)];
        if (sequence.position + rows_each > context_) {
            return fail(ErrorCode::kTooLarge,
                        fmt::format("the tokens do not fit a context of {} positions", context_));
        }
        BALLAST_TRY_STATUS(sequence.table->grow(sequence.position + rows_each));
        rows.push_back({.first_row = i * rows_each,
                        .n_rows = rows_each,
                        .first_position = sequence.position,
                        .blocks = sequence.table->blocks()});
    }
    BALLAST_TRY_STATUS(
        compute_->executor().run({.tokens = ids,
                                  .sequences = rows,
                                  .n_decode_rows = decode ? static_cast<int>(ids.size()) : 0,
                                  .output_rows = outputs}));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const int index = outputs[i] / rows_each;
        const auto& sequence = rows[static_cast<std::size_t>(index)];
        on_logits(first_sequence + index,
                  sequence.first_position + outputs[i] % rows_each,
                  compute_->executor().logits(static_cast<int>(i)));
    }
    for (int i = 0; i < n_sequences; ++i) {
        sequences_[static_cast<std::size_t>(first_sequence + i)].position += rows_each;
    }
    return {};
}

Status Evaluator::feed(int sequence,
                       std::span<const TokenId> ids,
                       ArithmeticClass arithmetic,
                       Wanted wanted,
                       const OnLogits& on_logits) {
    const bool decode = arithmetic == ArithmeticClass::kDecode;
    std::size_t done = 0;
    while (done < ids.size()) {
        const std::size_t rows_max = decode                   ? 1
                                     : wanted == Wanted::kAll ? kRows
                                                              : kRowsWithoutLogits;
        const std::size_t n = std::min(rows_max, ids.size() - done);
        std::vector<std::int32_t> outputs;
        if (wanted == Wanted::kAll) {
            outputs.resize(n);
            std::iota(outputs.begin(), outputs.end(), 0);
        } else if (wanted == Wanted::kLast && done + n == ids.size()) {
            outputs.push_back(static_cast<std::int32_t>(n) - 1);
        }
        BALLAST_TRY_STATUS(step(sequence, 1, ids.subspan(done, n), decode, outputs, on_logits));
        done += n;
    }
    return {};
}

Status Evaluator::feed_decode(std::span<const TokenId> ids, const OnLogits& on_logits) {
    BALLAST_CHECK(ids.size() <= sequences_.size());
    std::vector<std::int32_t> outputs(ids.size());
    std::iota(outputs.begin(), outputs.end(), 0);
    return step(0, static_cast<int>(ids.size()), ids, true, outputs, on_logits);
}

void Evaluator::reset(int sequence) {
    sequences_[static_cast<std::size_t>(sequence)].table->clear();
    sequences_[static_cast<std::size_t>(sequence)].position = 0;
}

std::int64_t Evaluator::position(int sequence) const {
    return sequences_[static_cast<std::size_t>(sequence)].position;
}

namespace {

/// The windows of a text and the sum of −log p over what has been scored so far.
class PerplexityRun {
  public:
    PerplexityRun(std::vector<TokenId> ids, int context, int n_chunks)
        : ids_(std::move(ids)), context_(context), sums_(static_cast<std::size_t>(n_chunks), 0.0) {}

    std::span<const TokenId> window(int chunk) const {
        return std::span(ids_).subspan(static_cast<std::size_t>(chunk * context_),
                                       static_cast<std::size_t>(context_));
    }
    std::span<TokenId> window(int chunk) {
        return std::span(ids_).subspan(static_cast<std::size_t>(chunk * context_),
                                       static_cast<std::size_t>(context_));
    }
    /// Scores the id after this position if it lies in the second half.
    void score(int chunk, std::int64_t position, std::span<const float> logits) {
        if (position >= context_ / 2 && position + 1 < context_) {
            const TokenId next = window(chunk)[static_cast<std::size_t>(position) + 1];
            sums_[static_cast<std::size_t>(chunk)] -= sampling::log_probability(logits, next);
        }
    }
    double running(int chunks_done) const {
        const double sum = std::accumulate(sums_.begin(), sums_.begin() + chunks_done, 0.0);
        const int scored_each = context_ - 1 - context_ / 2;
        return std::exp(sum / (static_cast<double>(scored_each) * chunks_done));
    }
    int n_chunks() const { return static_cast<int>(sums_.size()); }
    int context() const { return context_; }

  private:
    std::vector<TokenId> ids_;
    int context_;
    std::vector<double> sums_;
};

Result<PerplexityRun> prepare(const LoadedModel& model,
                              std::string_view text,
                              const PerplexityOptions& options) {
    if (options.context < 8 || options.context > model.model->config().context_length) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("--context is {}, but must be between 8 and the model's {}",
                                options.context,
                                model.model->config().context_length));
    }
    std::vector<TokenId> ids =
        model.tokenizer->encode(text, {.add_special = true, .parse_special = false});
    const int available = static_cast<int>(ids.size()) / options.context;
    if (available == 0) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("the text has {} tokens, but one window (--context) needs {}",
                                ids.size(),
                                options.context));
    }
    const int n_chunks = options.chunks > 0 ? std::min(options.chunks, available) : available;
    PerplexityRun run(std::move(ids), options.context, n_chunks);
    if (model.tokenizer->adds_bos()) {
        for (int chunk = 0; chunk < n_chunks; ++chunk) {
            run.window(chunk)[0] = model.tokenizer->bos();
        }
    }
    return run;
}

Status run_prefill(Evaluator& evaluator,
                   PerplexityRun& run,
                   const std::function<void(int, double)>& on_chunk) {
    for (int chunk = 0; chunk < run.n_chunks(); ++chunk) {
        evaluator.reset(0);
        const auto half = static_cast<std::size_t>(run.context() / 2);
        const std::span<const TokenId> ids = run.window(chunk);
        const auto on_logits = [&](int, std::int64_t position, std::span<const float> logits) {
            run.score(chunk, position, logits);
        };
        BALLAST_TRY_STATUS(evaluator.feed(
            0, ids.first(half), ArithmeticClass::kPrefill, Wanted::kNone, on_logits));
        BALLAST_TRY_STATUS(evaluator.feed(
            0, ids.subspan(half), ArithmeticClass::kPrefill, Wanted::kAll, on_logits));
        on_chunk(chunk, run.running(chunk + 1));
    }
    return {};
}

/// Up to `together` windows advance at once, one token of each a step: a decode row's result does
/// not depend on its neighbours.
Status run_decode(Evaluator& evaluator,
                  PerplexityRun& run,
                  int together,
                  const std::function<void(int, double)>& on_chunk) {
    for (int first = 0; first < run.n_chunks(); first += together) {
        const int n = std::min(together, run.n_chunks() - first);
        std::vector<TokenId> ids(static_cast<std::size_t>(n));
        for (int i = 0; i < n; ++i) {
            evaluator.reset(i);
        }
        for (int position = 0; position < run.context(); ++position) {
            for (int i = 0; i < n; ++i) {
                ids[static_cast<std::size_t>(i)] =
                    run.window(first + i)[static_cast<std::size_t>(position)];
            }
            BALLAST_TRY_STATUS(evaluator.feed_decode(
                ids, [&](int i, std::int64_t at, std::span<const float> logits) {
                    run.score(first + i, at, logits);
                }));
        }
        for (int chunk = first; chunk < first + n; ++chunk) {
            on_chunk(chunk, run.running(chunk + 1));
        }
    }
    return {};
}

}  // namespace

Result<double> perplexity(const LoadedModel& model,
                          const EngineOptions& engine,
                          std::string_view text,
                          const PerplexityOptions& options,
                          const std::function<void(int, double)>& on_chunk) {
    BALLAST_TRY(PerplexityRun run, prepare(model, text, options));
    const bool decode = options.arithmetic == ArithmeticClass::kDecode;
    const int together = decode ? std::min(run.n_chunks(), kWindowsTogether) : 1;
    BALLAST_TRY(auto evaluator, Evaluator::create(*model.model, engine, together, options.context));
    BALLAST_TRY_STATUS(decode ? run_decode(*evaluator, run, together, on_chunk)
                              : run_prefill(*evaluator, run, on_chunk));
    const double result = run.running(run.n_chunks());
    if (!std::isfinite(result)) {
        return fail(ErrorCode::kCorruptFile, "the model's logits are not finite numbers");
    }
    return result;
}

}  // namespace ballast::runtime
