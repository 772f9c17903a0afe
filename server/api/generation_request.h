// SPDX-License-Identifier: MIT
// The fields that chat and plain completions share: model, streaming, length, stops, sampling.
#pragma once

#include <string>
#include <vector>

#include "engine/sampling/sampler.h"
#include "server/api/error_reply.h"
#include "server/api/field_reader.h"
#include "server/api/model_state.h"
#include "server/api/options.h"

namespace ballast::api {

/// Validated. Plain data.
struct GenerationRequest {
    std::string model;
    bool stream = false;
    bool include_usage = false;
    int n = 1;
    int max_tokens = -1;  // −1: left open
    sampling::SamplingOptions sampling;
    bool has_seed = false;
    std::vector<std::string> stop;
    bool ignore_eos = false;
};

/// Reads everything but logprobs, whose form differs between the endpoints. max_tokens_min:
/// the smallest max_tokens allowed.
ApiResult<GenerationRequest> parse_generation(const FieldReader& fields,
                                              const ServedModel& served,
                                              const ApiOptions& options,
                                              int max_tokens_min);

/// Refuses fields that would change the reply's meaning and that nothing here honours.
ApiResult<void> refuse_unsupported(const FieldReader& fields);

}  // namespace ballast::api
