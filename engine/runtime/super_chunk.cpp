// SPDX-License-Identifier: MIT
// Cuts prompts into micro-batches and goes through them stage by stage.
#include "engine/runtime/super_chunk.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/runtime/batch.h"

namespace ballast::runtime {

namespace {

// Of a step's time: what takes longer to cross than this is not hidden behind the computation.
constexpr double kLinkBound = 0.8;

/// Whether fewer bytes cross for these rows in a super-chunk than in steps of so many.
bool saves_bytes(const SuperStages& stages, int rows, int step_rows) {
    const int n_more_steps = (rows + step_rows - 1) / step_rows - 1;
    return static_cast<std::uint64_t>(n_more_steps) * stages.tile_bytes >
           static_cast<std::uint64_t>(rows) * stages.crossing_bytes;
}

/// Whether steps beside running streams would wait for the link. Not as long as no step was seen.
bool is_link_bound(const SuperStages& stages, double step_seconds, double link_bps) {
    return step_seconds > 0.0 && link_bps > 0.0 &&
           static_cast<double>(stages.tile_bytes) / link_bps > kLinkBound * step_seconds;
}

}  // namespace

Status SuperChunk::begin(Executor& executor,
                         std::span<const std::unique_ptr<Sequence>> sequences,
                         const PrefillPace& pace,
                         double link_bps,
                         Nanoseconds now) {
    BALLAST_CHECK(!is_running());
    const SuperBinding* const super = executor.super();
    if (super == nullptr) {
        return {};
    }
    bool shared = false;
    std::int64_t left = 0;
    for (const auto& sequence : sequences) {
        shared = shared || sequence->decoding();
        left += std::max(sequence->prompt_left(), 0);
    }
    const int rows = static_cast<int>(std::min<std::int64_t>(left, super->rows()));
    if (rows == 0) {
        return {};
    }
    const auto& stages = super->stages().stages;
    const bool pays =
        saves_bytes(super->stages(), rows, pace.step_tokens(shared)) &&
        (!shared || is_link_bound(super->stages(), pace.step_seconds(true), link_bps));
    if (!pays && !always_) {
        return {};
    }
    BALLAST_TRY_STATUS(
        take(sequences, rows, pace.micro_batch(shared, static_cast<int>(stages.size()))));
    if (parts_.empty()) {
        return {};
    }
    stage_ = 0;
    part_ = 0;
    duration_ = Nanoseconds(0);
    resumed_ = now;
    others_fed_ = false;
    n_takes_ = 0;
    fed_.clear();
    const bool outputs = std::any_of(
        parts_.begin(), parts_.end(), [](const MicroBatch& part) { return part.wants_logits; });
    return executor.begin_super(outputs);
}

Status SuperChunk::take(std::span<const std::unique_ptr<Sequence>> sequences,
                        int rows,
                        int micro_batch) {
    n_tokens_ = 0;
    for (const auto& sequence : sequences) {
        const int left = std::max(sequence->prompt_left(), 0);
        for (int skip = 0; skip < left;) {
            const std::int64_t position = sequence->position() + skip;
            const int wanted = std::min(micro_batch, rows - n_tokens_);
            const int n = cut_chunk(position, wanted, left - skip);
            if (n <= 0) {
                break;
            }
            BALLAST_TRY_STATUS(sequence->table().grow(position + n));
            parts_.push_back({.sequence = sequence.get(),
                              .tokens = sequence->prompt_tokens(skip, n),
                              .position = position,
                              .first_row = n_tokens_,
                              .wants_logits = sequence->samples_after(skip + n)});
            n_tokens_ += n;
            skip += n;
        }
    }
    return {};
}

bool SuperChunk::has_held_up(Nanoseconds now) const {
    return now - resumed_ >= std::max(PrefillPace::hold_up(), last_way_);
}

std::size_t SuperChunk::next(std::size_t from, const SuperStage& stage) const {
    while (from < parts_.size() && !runs(parts_[from], stage)) {
        ++from;
    }
    return from;
}

Status SuperChunk::run(Executor& executor, KvRecovery& recovery, const Clock& clock) {
    BALLAST_TRY_STATUS(advance(executor, recovery));
    if (!is_running()) {
        return {};
    }
    const SuperStage& stage = executor.super()->stages().stages[stage_];
    MicroBatch& part = parts_[part_];
    part.rows = {.n_rows = part.n_tokens(),
                 .first_position = part.position,
                 .blocks = part.sequence->table().blocks()};
    part.output = part.n_tokens() - 1;
    const std::span<const std::int32_t> outputs(&part.output, part.wants_logits ? 1 : 0);
    recovery.before_step({&part.rows, 1});
    const Nanoseconds begin = clock.now();
    BALLAST_TRY_STATUS(executor.run_super(
        {.tokens = part.tokens, .sequences = {&part.rows, 1}, .output_rows = outputs},
        {.stage = stage_,
         .first_row = part.first_row,
         .is_last = next(part_ + 1, stage) == parts_.size()}));
    duration_ += clock.now() - begin;
    if (stage.outputs) {
        feed_others(recovery);
        feed(part, recovery);
    }
    ++part_;
    return advance(executor, recovery);
}

std::vector<SuperChunk::Fed> SuperChunk::take_fed() {
    n_takes_ += fed_.empty() ? 0 : 1;
    return std::exchange(fed_, {});
}

void SuperChunk::feed(const MicroBatch& part, KvRecovery& recovery) {
    recovery.after_step({&part.rows, 1});
    fed_.push_back(
        {.sequence = part.sequence, .n_tokens = part.n_tokens(), .has_logits = part.wants_logits});
}

void SuperChunk::feed_others(KvRecovery& recovery) {
    if (std::exchange(others_fed_, true)) {
        return;
    }
    for (const MicroBatch& part : parts_) {
        if (part.sequence != nullptr && !part.wants_logits) {
            feed(part, recovery);
        }
    }
}

Status SuperChunk::advance(Executor& executor, KvRecovery& recovery) {
    const auto& stages = executor.super()->stages().stages;
    for (; stage_ < stages.size(); ++stage_, part_ = 0) {
        part_ = next(part_, stages[stage_]);
        if (part_ < parts_.size()) {
            return {};
        }
        BALLAST_TRY_STATUS(executor.leave_stage(stage_));
    }
    feed_others(recovery);
    drop(executor);
    return {};
}

void SuperChunk::forget(const Sequence& sequence, Executor& executor) {
    bool any = false;
    for (MicroBatch& part : parts_) {
        if (part.sequence == &sequence) {
            part.sequence = nullptr;
            part.tokens = {};
        }
        any = any || part.sequence != nullptr;
    }
    if (is_running() && !any) {
        drop(executor);
    }
}

void SuperChunk::drop(Executor& executor) {
    if (is_running()) {
        parts_.clear();
        executor.end_super();
    }
}

}  // namespace ballast::runtime
