// SPDX-License-Identifier: MIT
// Defaults and limits.
#include "engine/runtime/compute_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/cpu_features.h"
#include "engine/kernels/cpu/kernel_table.h"

namespace ballast::runtime {

namespace {

// Without a wish the context is bounded, because KV for all of it is reserved.
constexpr int kDefaultContextMax = 8192;
constexpr int kThreadsMax = 1024;

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

Result<StoredProfile> stored_profile(const EngineOptions& options, const std::string& folder) {
    BALLAST_TRY(const kernels::KernelTable* kernels, kernels::choose_kernels(options.force_isa));
    BALLAST_TRY(const int n_threads, compute_threads(options));
    const HardwareFacts facts = detect_hardware(*kernels, n_threads);
    return load_profile(folder, empty_profile(facts, 0).key);
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

}  // namespace ballast::runtime
