// SPDX-License-Identifier: MIT
// What stands beside the engine's loop: which options and jobs it refuses, and what is known of a
// model and of a job before anything runs.
#pragma once

#include <vector>

#include "engine/base/result.h"
#include "engine/runtime/options.h"
#include "engine/runtime/ports.h"
#include "engine/tokenizer/tokenizer.h"

namespace ballast::runtime {

/// kInvalidRequest naming the option. Those of compute and device are checked where they are used.
Status check_options(const EngineOptions& options);

/// kInvalidRequest if a token is none of the vocabulary or the job does not fit the context.
Status check_job(const Job& job, int vocabulary, int context);

/// The tokens that end a reply.
std::vector<TokenId> end_ids_of(const tokenizer::Tokenizer& tokenizer);

/// Of a job that ends before it has started.
JobStats unstarted_stats(const Job& job, Nanoseconds now);

}  // namespace ballast::runtime
