// SPDX-License-Identifier: MIT
// As many prompt tokens as can go through the model together, where weights stream: a layer's cross
// once for all of them. They go in micro-batches, each a piece of one prompt, and stage by stage;
// between any two of these the engine may run steps of generated tokens, look at the load, and hear
// of cancellations.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/kv_recovery.h"
#include "engine/runtime/prefill_pace.h"
#include "engine/runtime/sequence.h"

namespace ballast::runtime {

/// Engine thread. The executor may be another one after drop().
class SuperChunk {
  public:
    /// A micro-batch that has run all stages: its tokens have been fed.
    struct Fed {
        Sequence* sequence = nullptr;
        int n_tokens = 0;
        bool has_logits = false;  // those of output 0 are the sequence's
    };
    /// `always`: also where steps are as good, for tests.
    explicit SuperChunk(bool always = false) : always_(always) {}

    /// Tokens of the prompts, oldest first, as many as there is memory for. Takes none where steps
    /// are as good: nothing streams, or one takes all that is left, or more would cross; or while
    /// others decode, whose tokens ride along in steps for little, if what streams crosses behind
    /// the computation of a step at `link_bps`. kOverloaded if KV blocks run out; errors of the
    /// device.
    Status begin(Executor& executor,
                 std::span<const std::unique_ptr<Sequence>> sequences,
                 const PrefillPace& pace,
                 double link_bps,
                 Nanoseconds now);
    bool is_running() const { return !parts_.empty(); }
    /// Whether running streams have waited long enough for a step of theirs: as long as their last
    /// one took, so that prompts have half of the time at least, and not for less than is fair.
    bool has_held_up(Nanoseconds now) const;
    /// They have had one, which took so long.
    void gave_way(Nanoseconds now, Nanoseconds duration) {
        resumed_ = now;
        last_way_ = duration;
    }

    /// One stage of one micro-batch. After an error it is to be dropped.
    Status run(Executor& executor, KvRecovery& recovery, const Clock& clock);
    /// What the last run() has fed, in order; once. Nothing is fed before all is computed but the
    /// logits.
    std::vector<Fed> take_fed();
    /// take_fed() has given the first of them.
    bool is_first_fed() const { return n_takes_ == 1; }
    /// How many tokens it takes or took, and the time of its runs so far.
    int n_tokens() const { return n_tokens_; }
    Nanoseconds duration() const { return duration_; }

    /// A sequence ends; what is left of it here is not run.
    void forget(const Sequence& sequence, Executor& executor);
    /// Leaves it where it is. What was not fed is to be fed again.
    void drop(Executor& executor);

  private:
    /// A piece of one prompt.
    struct MicroBatch {
        Sequence* sequence = nullptr;  // null: it is of no use any more
        std::span<const TokenId> tokens = {};
        std::int64_t position = 0;
        int first_row = 0;
        bool wants_logits = false;
        backend::SequenceRows rows = {};  // views, set for each run
        std::int32_t output = 0;

        int n_tokens() const { return static_cast<int>(tokens.size()); }
    };

    /// Cuts the prompts; at most so many rows.
    Status take(std::span<const std::unique_ptr<Sequence>> sequences, int rows, int micro_batch);
    static bool runs(const MicroBatch& part, const SuperStage& stage) {
        return part.sequence != nullptr && (!stage.outputs || part.wants_logits);
    }
    /// The next micro-batch that runs the stage, from this one on; the number of all if none does.
    std::size_t next(std::size_t from, const SuperStage& stage) const;
    void feed(const MicroBatch& part, KvRecovery& recovery);
    /// Those whose logits nobody wants.
    void feed_others(KvRecovery& recovery);
    /// To the next micro-batch that runs, of this stage or a later one; where there is none, it
    /// ends.
    Status advance(Executor& executor, KvRecovery& recovery);

    const bool always_;
    std::vector<MicroBatch> parts_;
    std::size_t stage_ = 0;
    std::size_t part_ = 0;  // next to run, if it is not of a sequence that ended
    int n_tokens_ = 0;
    Nanoseconds duration_{0};
    Nanoseconds resumed_{0};
    Nanoseconds last_way_{0};
    bool others_fed_ = false;
    int n_takes_ = 0;  // of what was fed
    std::vector<Fed> fed_;
};

}  // namespace ballast::runtime
