// SPDX-License-Identifier: MIT
// Composes a step.
#include "engine/runtime/batch.h"

#include <algorithm>

#include "engine/runtime/options.h"

namespace ballast::runtime {

int cut_chunk(std::int64_t position, int wanted, int left) {
    if (left <= wanted) {
        return left;
    }
    const std::int64_t end = (position + wanted) / kPrefillGrain * kPrefillGrain;
    return static_cast<int>(std::max<std::int64_t>(end - position, 0));
}

Batch::Batch(int rows_max, int sequences_max) {
    tokens_.reserve(static_cast<std::size_t>(rows_max));
    rows_.reserve(static_cast<std::size_t>(sequences_max));
    outputs_.reserve(static_cast<std::size_t>(sequences_max));
    members_.reserve(static_cast<std::size_t>(sequences_max));
}

Status Batch::build(std::span<const std::unique_ptr<Sequence>> sequences, int prefill_tokens) {
    tokens_.clear();
    rows_.clear();
    outputs_.clear();
    members_.clear();
    for (const auto& sequence : sequences) {
        if (sequence->decoding()) {
            BALLAST_TRY_STATUS(add(*sequence, 1, sequence->samples_after(1)));
        }
    }
    n_decode_ = static_cast<int>(tokens_.size());
    for (const auto& sequence : sequences) {
        if (!sequence->decoding() && prefill_tokens > 0) {
            const int left = sequence->prompt_left();
            const int n = cut_chunk(sequence->position(), prefill_tokens, left);
            if (n > 0) {
                BALLAST_TRY_STATUS(add(*sequence, n, sequence->samples_after(n)));
                prefill_tokens -= n;
            }
        }
    }
    return {};
}

Status Batch::add(Sequence& sequence, int n_tokens, bool wants_logits) {
    BALLAST_TRY_STATUS(sequence.table().grow(sequence.position() + n_tokens));
    const int first_row = static_cast<int>(tokens_.size());
    const std::span<const TokenId> ids = sequence.next_tokens(n_tokens);
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
    rows_.push_back({.first_row = first_row,
                     .n_rows = n_tokens,
                     .first_position = sequence.position(),
                     .blocks = sequence.table().blocks()});
    members_.push_back({.sequence = &sequence,
                        .n_tokens = n_tokens,
                        .output = wants_logits ? static_cast<int>(outputs_.size()) : -1});
    if (wants_logits) {
        outputs_.push_back(first_row + n_tokens - 1);
    }
    return {};
}

backend::StepInput Batch::input() const {
    return {
        .tokens = tokens_, .sequences = rows_, .n_decode_rows = n_decode_, .output_rows = outputs_};
}

}  // namespace ballast::runtime
