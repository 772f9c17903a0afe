// SPDX-License-Identifier: MIT
// Feeds prompts and generates after them as an engine does, on one Compute, in super-chunks where
// these are worth it or in steps alone, and keeps the logits that each sequence saw. What a
// sequence sees depends on its own tokens only, so that they can be compared whatever the order.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/runtime/batch.h"
#include "engine/runtime/compute.h"
#include "engine/runtime/loaded_model.h"
#include "engine/runtime/super_chunk.h"
#include "tests/engine/runtime/recording.h"

namespace ballast::test {

/// The first prompt comes first; the others when it is being answered.
struct FeedPlay {
    std::vector<std::vector<TokenId>> prompts = {};
    int n_generated = 4;  // of each
    int chunk = 64;       // most tokens of a micro-batch
    /// Steps of generated tokens after so many pieces of a super-chunk; 0: none while it runs.
    int pieces_between = 0;
    /// Super-chunks also where more bytes cross than in steps.
    bool always = false;
};

class Feed {
  public:
    Feed(const runtime::LoadedModel& model, runtime::Compute& compute, const FeedPlay& play)
        : compute_(compute),
          play_(play),
          pace_(play.chunk),
          batch_(kRows, kSequences),
          chunk_(play.always) {
        logits_.resize(play.prompts.size());
        for (std::size_t i = 0; i < play.prompts.size(); ++i) {
            auto job = std::make_shared<runtime::Job>();
            job->id = i;
            job->prompt = play.prompts[i];
            job->max_tokens = play.n_generated;
            job->ignore_eos = true;
            job->sink = std::make_shared<RecordingSink>();
            waiting_.push_back(std::make_unique<runtime::Sequence>(std::move(job),
                                                                   *model.tokenizer,
                                                                   compute.blocks(),
                                                                   compute.blocks_per_sequence(),
                                                                   std::span<const TokenId>(),
                                                                   Nanoseconds(0)));
        }
    }
    static constexpr int kSequences = 4;
    static constexpr int kRows = 192 + kSequences;
    static constexpr int kContext = 512;
    static runtime::ComputeShape shape(int super_rows) {
        return {.sequences = kSequences,
                .context = kContext,
                .rows = kRows,
                .outputs = kSequences,
                .super_rows = super_rows};
    }

    Status run() {
        while (!waiting_.empty() || !running_.empty()) {
            BALLAST_TRY_STATUS(go_on());
        }
        return {};
    }

    /// A step, or a piece of a super-chunk.
    Status go_on() {
        runtime::Executor& executor = compute_.executor();
        if (running_.empty() || anyone_decodes()) {
            const auto end = running_.empty() ? waiting_.begin() + 1 : waiting_.end();
            std::move(waiting_.begin(), end, std::back_inserter(running_));
            waiting_.erase(waiting_.begin(), end);
        }
        if (!chunk_.is_running()) {
            BALLAST_TRY_STATUS(chunk_.begin(executor, running_, pace_, 0.0, clock_.now()));
            n_chunks += chunk_.is_running() ? 1 : 0;
        }
        const bool held_up =
            play_.pieces_between > 0 && anyone_decodes() && n_pieces_ >= play_.pieces_between;
        if (chunk_.is_running() && !held_up) {
            ++n_pieces_;
            BALLAST_TRY_STATUS(chunk_.run(executor, compute_.recovery(), clock_));
            for (const auto& fed : chunk_.take_fed()) {
                sample({.sequence = fed.sequence,
                        .n_tokens = fed.n_tokens,
                        .output = fed.has_logits ? 0 : -1});
            }
            return {};
        }
        n_pieces_ = 0;
        n_between += chunk_.is_running() ? 1 : 0;
        BALLAST_TRY_STATUS(batch_.build(running_, chunk_.is_running() ? 0 : play_.chunk));
        BALLAST_TRY_STATUS(executor.run(batch_.input()));
        n_steps += 1;
        for (const runtime::Batch::Member& member : batch_.members()) {
            sample(member);
        }
        return {};
    }

    bool anyone_decodes() const {
        return std::any_of(running_.begin(), running_.end(), [](const auto& sequence) {
            return sequence->decoding();
        });
    }
    /// As an engine does with one that nobody wants any more.
    void cancel(std::size_t prompt) {
        const auto found = std::find_if(running_.begin(), running_.end(), [&](const auto& each) {
            return each->job().id == prompt;
        });
        ASSERT_NE(found, running_.end());
        chunk_.forget(**found, compute_.executor());
        running_.erase(found);
    }
    void drop_chunk() { chunk_.drop(compute_.executor()); }
    bool in_chunk() const { return chunk_.is_running(); }
    /// By prompt: all logits that it saw.
    const std::vector<std::vector<float>>& logits() const { return logits_; }

    int n_chunks = 0;   // super-chunks that began
    int n_between = 0;  // steps while one was running
    int n_steps = 0;

  private:
    void sample(const runtime::Batch::Member& member) {
        runtime::Sequence& sequence = *member.sequence;
        sequence.advance(member.n_tokens);
        if (member.output < 0) {
            return;
        }
        const std::span<float> row = compute_.executor().logits(member.output);
        auto& all = logits_[sequence.job().id];
        all.insert(all.end(), row.begin(), row.end());
        const auto ended = sequence.accept(row, Nanoseconds(1));
        ASSERT_TRUE(ended.has_value()) << ended.error().message;
        if (*ended) {
            cancel(sequence.job().id);
        }
    }

    runtime::Compute& compute_;
    const FeedPlay play_;
    SystemClock clock_;
    runtime::PrefillPace pace_;
    runtime::Batch batch_;
    runtime::SuperChunk chunk_;
    std::vector<std::unique_ptr<runtime::Sequence>> waiting_;
    std::vector<std::unique_ptr<runtime::Sequence>> running_;
    std::vector<std::vector<float>> logits_;
    int n_pieces_ = 0;
};

}  // namespace ballast::test
