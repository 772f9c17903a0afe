// SPDX-License-Identifier: MIT
// Checks the options and builds the parts from the threads up.
#include "engine/runtime/compute.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "engine/base/cpu_features.h"

namespace ballast::runtime {

namespace {

// Without a wish the context is bounded, because KV for all of it is reserved.
constexpr int kDefaultContextMax = 8192;
constexpr int kThreadsMax = 1024;

Result<kernels::KvType> parse_kv_type(const std::string& name) {
    if (name == "f16") {
        return kernels::KvType::kF16;
    }
    if (name == "f32") {
        return kernels::KvType::kF32;
    }
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("kv_type is \"{}\"; possible are f16 and f32", name));
}

}  // namespace

Result<int> compute_threads(const EngineOptions& options) {
    if (options.threads < 0 || options.threads > kThreadsMax) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("threads is {}, but must be between 0 (one a processor) and {}",
                                options.threads,
                                kThreadsMax));
    }
    return options.threads == 0 ? detect_cpu_features().logical_cores : options.threads;
}

Result<int> context_tokens(const model::Model& model, const EngineOptions& options) {
    const int trained = model.config().context_length;
    if (options.context == 0) {
        return std::min(trained, kDefaultContextMax);
    }
    if (options.context < 0 || options.context > trained) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("context is {}, but this model was trained for 1 to {} tokens",
                                options.context,
                                trained));
    }
    return options.context;
}

Result<std::unique_ptr<Compute>> Compute::create(const model::Model& model,
                                                 const EngineOptions& options,
                                                 const ComputeShape& shape) {
    try {
        return build(model, options, shape);
    } catch (const std::bad_alloc&) {
        return fail(
            ErrorCode::kOutOfMemory,
            fmt::format("there is not enough memory for {} sequences of {} tokens and steps "
                        "of {} rows; lower engine.context, parallel or prefill_chunk",
                        shape.sequences,
                        shape.context,
                        shape.rows));
    }
}

Result<std::unique_ptr<Compute>> Compute::build(const model::Model& model,
                                                const EngineOptions& options,
                                                const ComputeShape& shape) {
    std::unique_ptr<Compute> compute(new Compute());
    BALLAST_TRY(const kernels::KvType kv_type, parse_kv_type(options.kv_type));
    BALLAST_TRY(const int n_threads, compute_threads(options));
    BALLAST_TRY(compute->kernels_, kernels::choose_kernels(options.force_isa));
    compute->pool_ = std::make_unique<ThreadPool>(n_threads);
    compute->backend_ = std::make_unique<backend::CpuBackend>(*compute->kernels_, *compute->pool_);

    const model::ModelConfig& config = model.config();
    const cache::KvShape kv{.n_layers = config.n_layers,
                            .n_kv_heads = config.n_kv_heads,
                            .head_dim = config.head_dim,
                            .type = kv_type};
    compute->blocks_per_sequence_ =
        (shape.context + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
    const int n_blocks = shape.sequences * compute->blocks_per_sequence_;
    std::vector<cache::KvPlacement> placements;
    placements.reserve(static_cast<std::size_t>(config.n_layers));
    for (int layer = 0; layer < config.n_layers; ++layer) {
        placements.push_back({.layer = layer,
                              .first_head = 0,
                              .n_heads = config.n_kv_heads,
                              .backend = compute->backend_.get()});
    }
    BALLAST_TRY(compute->cache_, cache::KvCache::create(kv, n_blocks, placements));
    compute->blocks_ = std::make_unique<cache::BlockPool>(n_blocks);
    BALLAST_TRY(
        compute->executor_,
        Executor::create(model,
                         *compute->backend_,
                         *compute->cache_,
                         {.rows = shape.rows, .outputs = shape.outputs, .context = shape.context}));
    return compute;
}

}  // namespace ballast::runtime
