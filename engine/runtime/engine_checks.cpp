// SPDX-License-Identifier: MIT
// Ranges, and what is said of them.
#include "engine/runtime/engine_checks.h"

#include <fmt/format.h>

#include "engine/runtime/expert_places.h"

namespace ballast::runtime {

Status check_options(const EngineOptions& options) {
    if (options.parallel < 1 || options.parallel > kParallelMax) {
        return fail(
            ErrorCode::kInvalidRequest,
            fmt::format(
                "parallel is {}, but must be between 1 and {}", options.parallel, kParallelMax));
    }
    if (options.prefill_chunk < kPrefillGrain || options.prefill_chunk > kPrefillChunkMax ||
        options.prefill_chunk % kPrefillGrain != 0) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("prefill_chunk is {}, but must be a multiple of {} up to {}",
                                options.prefill_chunk,
                                kPrefillGrain,
                                kPrefillChunkMax));
    }
    const auto rule = parse_slot_rule(options.expert_slots);
    return rule ? Status() : tl::unexpected(rule.error());
}

Status check_job(const Job& job, int vocabulary, int context) {
    for (const TokenId id : job.prompt) {
        if (id < 0 || id >= vocabulary) {
            return fail(
                ErrorCode::kInvalidRequest,
                fmt::format("prompt token {} is no id of this vocabulary of {}", id, vocabulary));
        }
    }
    const auto tokens = static_cast<std::int64_t>(job.prompt.size()) + job.max_tokens;
    if (job.prompt.empty() || job.max_tokens < 0 || tokens > context) {
        return fail(
            ErrorCode::kInvalidRequest,
            fmt::format("a job of {} prompt tokens and {} new ones does not fit the context of {}",
                        job.prompt.size(),
                        job.max_tokens,
                        context));
    }
    return {};
}

std::vector<TokenId> end_ids_of(const tokenizer::Tokenizer& tokenizer) {
    std::vector<TokenId> ids;
    for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
        if (tokenizer.is_end_of_generation(id)) {
            ids.push_back(id);
        }
    }
    return ids;
}

JobStats unstarted_stats(const Job& job, Nanoseconds now) {
    return {.prompt_tokens = static_cast<int>(job.prompt.size()), .queued = now - job.created};
}

}  // namespace ballast::runtime
