// SPDX-License-Identifier: MIT
// The hardware side of a running model, put together in the right order: threads, kernels, backend,
// KV cache and executor. The engine and the evaluator each own one.
#pragma once

#include <memory>

#include "engine/backend/cpu_backend.h"
#include "engine/base/result.h"
#include "engine/base/thread_pool.h"
#include "engine/cache/block_pool.h"
#include "engine/cache/kv_cache.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/options.h"

namespace ballast::runtime {

/// How much of it: sequences at once and rows of a step.
struct ComputeShape {
    int sequences = 1;
    int context = 0;  // positions of one sequence
    int rows = 0;
    int outputs = 0;
};

/// Used by one thread. The model outlives it.
class Compute {
  public:
    /// Errors: kInvalidRequest naming the option, kUnsupported, kOutOfMemory.
    static Result<std::unique_ptr<Compute>> create(const model::Model& model,
                                                   const EngineOptions& options,
                                                   const ComputeShape& shape);

    Executor& executor() { return *executor_; }
    cache::BlockPool& blocks() { return *blocks_; }
    const ThreadPool& pool() const { return *pool_; }
    ThreadPool& pool() { return *pool_; }
    const kernels::KernelTable& kernels() const { return *kernels_; }
    int blocks_per_sequence() const { return blocks_per_sequence_; }

  private:
    Compute() = default;
    /// create(), which may also throw std::bad_alloc.
    static Result<std::unique_ptr<Compute>> build(const model::Model& model,
                                                  const EngineOptions& options,
                                                  const ComputeShape& shape);
    const kernels::KernelTable* kernels_ = nullptr;
    std::unique_ptr<ThreadPool> pool_;
    std::unique_ptr<backend::CpuBackend> backend_;
    std::unique_ptr<cache::KvCache> cache_;
    std::unique_ptr<cache::BlockPool> blocks_;
    std::unique_ptr<Executor> executor_;
    int blocks_per_sequence_ = 0;
};

/// Threads that compute under these options. kInvalidRequest if the option is out of range.
Result<int> compute_threads(const EngineOptions& options);

/// Tokens one request may use under these options: the option, else the model's own, 8192 at most.
/// kInvalidRequest if the option exceeds what the model was trained for.
Result<int> context_tokens(const model::Model& model, const EngineOptions& options);

}  // namespace ballast::runtime
