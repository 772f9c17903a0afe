// SPDX-License-Identifier: MIT
// The hardware side of a running model, put together in the right order: threads, kernels,
// backends, weights on the device, KV cache and executor. The engine and the evaluator each own
// one.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/backend/checked_backend.h"
#include "engine/backend/cpu_backend.h"
#include "engine/backend/host_backend.h"
#include "engine/backend/paced_cpu.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/base/thread_pool.h"
#include "engine/cache/block_pool.h"
#include "engine/cache/kv_cache.h"
#include "engine/runtime/device_side.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/options.h"
#include "engine/runtime/profile_file.h"
#include "engine/runtime/residency.h"
#include "scheduler/tensor_scheduler.h"

namespace ballast::runtime {

/// How much of it: sequences at once and rows of a step.
struct ComputeShape {
    int sequences = 1;
    int context = 0;  // positions of one sequence
    int rows = 0;
    int outputs = 0;
    /// What goes where, if a device is wanted; null: what the scheduler decides.
    std::shared_ptr<const scheduler::Plan> plan = nullptr;
    /// This machine as it was measured; nothing if it was not.
    std::optional<scheduler::HardwareProfile> hardware = {};
    /// Pace and faults of the device "host"; its threads and memory follow from the options.
    backend::HostOptions host = {};
    /// The CPU as a slower one, for reports and tests; what is not set runs as fast as it can.
    backend::CpuPace cpu_pace = {};
    /// Most bytes that cross into the ring at once.
    std::size_t tile_bytes = scheduler::kTileBytesMax;
    /// Watches all that a device and the CPU beside it touch. Null: one that ends the process at a
    /// violation in builds with checks for debugging, none in others or if it is not wanted.
    std::shared_ptr<backend::AccessChecker> checker = nullptr;
    bool unchecked = false;
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
    /// The model's groups, with keys and values of the type in use.
    const scheduler::TensorCatalog& catalog() const { return catalog_; }
    /// Decides and learns. Its plan is followed unless the shape brought another.
    scheduler::TensorScheduler& scheduler() { return *scheduler_; }
    const scheduler::TensorScheduler& scheduler() const { return *scheduler_; }
    /// Tells it what this machine was measured to do.
    void set_measured_hardware(scheduler::HardwareProfile hardware);
    /// Tells it what the last step took, which decoded one token at this depth.
    void note_decode(int depth, Nanoseconds duration);
    /// Who watches what device and CPU touch; null: nobody.
    const backend::AccessChecker* checker() const { return checker_.get(); }
    /// What is where. Without a device all groups are on the CPU and there is no plan.
    const Residency& residency() const;
    /// For people: "host (…) computes 26 of the 61 groups of tensors and holds 39.2 MiB"; ""
    /// without a device.
    std::string device_summary() const;

  private:
    /// KV blocks and what they are made of.
    struct KvSizes {
        cache::KvShape shape = {};
        int n_blocks = 0;
    };
    Compute() = default;
    /// What ops of the CPU are submitted to.
    backend::Backend& cpu() { return checked_cpu_ != nullptr ? *checked_cpu_ : unchecked_cpu(); }
    backend::Backend& unchecked_cpu() {
        return paced_cpu_ != nullptr ? static_cast<backend::Backend&>(*paced_cpu_) : *backend_;
    }
    /// create(), which may also throw std::bad_alloc.
    static Result<std::unique_ptr<Compute>> build(const model::Model& model,
                                                  const EngineOptions& options,
                                                  const ComputeShape& shape);
    /// Bytes of the device that weights and KV may take; 0 without one.
    static std::uint64_t room_for_plan(const model::Model& model,
                                       const EngineOptions& options,
                                       const ComputeShape& shape,
                                       std::size_t n_groups);
    void add_scheduler(const EngineOptions& options,
                       const ComputeShape& shape,
                       std::int64_t kv_tokens);
    std::optional<scheduler::HardwareProfile> for_plans(
        const std::optional<scheduler::HardwareProfile>& measured) const;
    Status add_device(const model::Model& model,
                      const EngineOptions& options,
                      const ComputeShape& shape);
    Status take_kv(const KvSizes& sizes);

    SystemClock clock_;
    scheduler::TensorCatalog catalog_;
    Residency cpu_only_;
    std::unique_ptr<scheduler::TensorScheduler> scheduler_;
    std::uint64_t plan_bytes_ = 0;                   // of the device, for weights and KV
    std::vector<scheduler::GroupTime> group_times_;  // of the last step
    const kernels::KernelTable* kernels_ = nullptr;
    std::unique_ptr<ThreadPool> pool_;
    std::unique_ptr<backend::CpuBackend> backend_;
    std::shared_ptr<backend::PacedMemory> paced_memory_;  // null unless the CPU is paced
    std::unique_ptr<backend::PacedCpu> paced_cpu_;        // likewise
    std::shared_ptr<backend::AccessChecker> checker_;     // null: nobody watches
    std::unique_ptr<backend::Backend> checked_cpu_;       // likewise
    std::unique_ptr<backend::Backend> device_backend_;    // null: none
    std::unique_ptr<DeviceSide> device_;                  // null: none
    std::unique_ptr<cache::KvCache> cache_;
    std::unique_ptr<cache::BlockPool> blocks_;
    std::unique_ptr<Executor> executor_;
    int blocks_per_sequence_ = 0;
};

/// A step's times as a scheduler is told of them, without the embedding, which is in no group.
void group_times(std::span<const OpTime> times, std::vector<scheduler::GroupTime>& groups);

/// Threads that compute under these options. kInvalidRequest if the option is out of range.
Result<int> compute_threads(const EngineOptions& options);

/// What is stored of this machine as these options use it, or why there is nothing. Errors:
/// kInvalidRequest naming the option.
Result<StoredProfile> stored_profile(const EngineOptions& options, const std::string& folder);

/// Tokens one request may use under these options: the option, else the model's own, 8192 at most.
/// kInvalidRequest if the option exceeds what the model was trained for.
Result<int> context_tokens(const model::Model& model, const EngineOptions& options);

}  // namespace ballast::runtime
