// SPDX-License-Identifier: MIT
// Runs a model's ops for one batch after another: owns the step's memory and binds ops to it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/result.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/model.h"

namespace ballast::runtime {

/// Sizes that an executor takes memory for.
struct ExecutorLimits {
    int rows = 0;     // token rows of one step
    int outputs = 0;  // rows of one step whose logits are wanted
    int context = 0;  // positions of one sequence
};

/// Engine thread. The model, cache and backend outlive it.
class Executor {
  public:
    /// kOutOfMemory, or kUnsupported naming a tensor the backend has no kernels for.
    static Result<std::unique_ptr<Executor>> create(const model::Model& model,
                                                    backend::Backend& backend,
                                                    cache::KvCache& cache,
                                                    const ExecutorLimits& limits);
    ~Executor();
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    /// One forward pass. The input must be within the limits. An error leaves the executor usable.
    Status run(const backend::StepInput& input);

    /// A pass in parts: begin() binds the batch, run_segments() runs [first, last) of the model's
    /// segments (embedding, layers, head), so that other work can go between two layers.
    void begin(const backend::StepInput& input);
    Status run_segments(int first, int last);

    /// Logits of the i-th output row of the last pass: [vocabulary]; may be changed by the caller.
    std::span<float> logits(int output);

  private:
    /// Cosines and sines of one rope table for the rows of a step.
    struct RopeMemory {
        std::span<const double> rates;
        AlignedBuffer<float> cos;  // [rows][rates]
        AlignedBuffer<float> sin;
    };
    Executor(const model::Model& model, backend::Backend& backend, cache::KvCache& cache);
    Status allocate(const ExecutorLimits& limits);
    void fill_rope(const backend::StepInput& input);

    const model::Model& model_;
    backend::Backend& backend_;
    cache::KvCache& cache_;
    ExecutorLimits limits_;
    std::vector<backend::Chunk> chunks_;  // one a slot
    std::vector<backend::SlotView> slots_;
    std::vector<RopeMemory> rope_;
    std::vector<backend::RopeView> rope_views_;
    backend::StepContext context_;
};

}  // namespace ballast::runtime
