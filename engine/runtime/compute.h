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
#include "engine/runtime/compute_options.h"
#include "engine/runtime/device_side.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/expert_use.h"
#include "engine/runtime/kv_recovery.h"
#include "engine/runtime/lane_log.h"
#include "engine/runtime/options.h"
#include "engine/runtime/residency.h"
#include "scheduler/tensor_scheduler.h"

namespace ballast::runtime {

/// How much of it: sequences at once and rows of a step.
struct ComputeShape {
    int sequences = 1;
    int context = 0;  // positions of one sequence
    int rows = 0;
    int outputs = 0;
    int super_rows = 0;  // of a super-chunk; 0: there are none
    /// What goes where, if a device is wanted; null: what the scheduler decides.
    std::shared_ptr<const scheduler::Plan> plan = nullptr;
    /// This machine as it was measured; nothing if it was not.
    std::optional<scheduler::HardwareProfile> hardware = {};
    /// Most bytes of the device to take at first; nothing: all that the options allow.
    std::optional<std::uint64_t> device_bytes = {};
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

/// What release_device() gave back.
struct ReleasedDevice {
    std::uint64_t bytes = 0;
    int n_groups = 0;     // of tensors
    int n_kv_layers = 0;  // whose keys and values went to the host
    /// They could not be read any more: what is on the host is of no use.
    bool kv_lost = false;
};

/// Used by one thread. The model outlives it.
class Compute {
  public:
    /// Errors: kInvalidRequest naming the option, kUnsupported, kOutOfMemory.
    static Result<std::unique_ptr<Compute>> create(const model::Model& model,
                                                   const EngineOptions& options,
                                                   const ComputeShape& shape);

    Executor& executor() { return *executor_; }
    ExpertUse& expert_use() { return *expert_use_; }
    cache::BlockPool& blocks() { return *blocks_; }
    KvRecovery& recovery() { return *recovery_; }
    const ThreadPool& pool() const { return *pool_; }
    ThreadPool& pool() { return *pool_; }
    const kernels::KernelTable& kernels() const { return *kernels_; }
    int blocks_per_sequence() const { return blocks_per_sequence_; }
    /// The model's groups, with keys and values of the type in use.
    const scheduler::TensorCatalog& catalog() const { return catalog_; }
    /// Decides and learns. Its plan is followed unless the shape brought another.
    scheduler::TensorScheduler& scheduler() { return *scheduler_; }
    const scheduler::TensorScheduler& scheduler() const { return *scheduler_; }
    void set_measured_hardware(scheduler::HardwareProfile hardware);
    /// Tells it what the last step took, which decoded one token at this depth.
    void note_decode(int depth, Nanoseconds duration);
    /// Who watches what device and CPU touch; null: nobody.
    const backend::AccessChecker* checker() const { return checker_.get(); }
    /// What has crossed so far.
    TransferStats transfers() const;
    /// What the lanes did when.
    LaneLog& lane_log() { return lane_log_; }
    /// What is where. Without a device all groups are on the CPU and there is no plan.
    const Residency& residency() const;

    // The device's share changes between two steps; what was submitted has ended by then.
    /// Whether the options name one, which may be in use or not.
    bool wants_device() const { return wants_device_; }
    /// The shape said what goes where.
    bool has_fixed_plan() const { return shape_.plan != nullptr; }
    /// All of ours on the device, by its own view.
    backend::MemoryUse device_use() const;
    /// The same by what each part of ours says that it holds.
    std::uint64_t booked_bytes() const;
    /// Brings keys and values to the host, gives every byte of the device back, and goes on with
    /// the CPU. kOutOfMemory: the host has no room for them; no step can be run any more.
    Result<ReleasedDevice> release_device(bool is_trusted = true);
    /// The device itself goes too, after an error of it; the next start_device() begins anew.
    void drop_device();
    /// A device's side with nothing on it, to be filled (HeldShare).
    Status start_device(std::uint64_t device_bytes);
    /// Null: nothing of ours is on the device.
    DeviceSide* device_side() { return device_.get(); }
    /// Puts the first so many of a layer's KV heads on the device, the others on the CPU. Errors as
    /// KvCache::move(), which leave everything as it was. After recovery().end().
    Status move_kv(int layer, int n_on_device);
    /// All that was to move has moved, after recovery().end().
    void kv_has_moved();
    int kv_heads_on_device(int layer) const { return cache_->n_heads_on(layer, DeviceId::kDevice); }
    /// The device's side has changed: it is counted anew, and the next step follows it.
    void follow_device();
    /// Of so many bytes of the device what weights, keys and values, and the ring may take.
    std::uint64_t room_of(std::uint64_t device_bytes) const;
    bool divides_groups() const { return options_.divide_groups; }
    /// What a step and its alignment may take beside that, and of it the alignment.
    std::uint64_t step_bytes() const;
    std::uint64_t padding_bytes() const;
    std::int64_t kv_tokens() const { return cpu_only_.kv_tokens; }
    const model::Model& model() const { return model_; }
    /// For people: "host (…) computes 26 of the 61 groups of tensors"; "" without a device.
    std::string device_summary() const;

  private:
    /// KV blocks and what they are made of.
    struct KvSizes {
        cache::KvShape shape = {};
        int n_blocks = 0;
    };
    Compute(const model::Model& model, const EngineOptions& options, const ComputeShape& shape)
        : model_(model), options_(options), shape_(shape) {}
    /// What ops of the CPU are submitted to.
    backend::Backend& cpu() { return checked_cpu_ != nullptr ? *checked_cpu_ : unchecked_cpu(); }
    backend::Backend& unchecked_cpu() {
        return paced_cpu_ != nullptr ? static_cast<backend::Backend&>(*paced_cpu_) : *backend_;
    }
    std::uint64_t first_device_bytes() const;
    Status make_executor(DeviceSide* device);
    /// create(), which may also throw std::bad_alloc.
    static Result<std::unique_ptr<Compute>> build(const model::Model& model,
                                                  const EngineOptions& options,
                                                  const ComputeShape& shape);
    void add_scheduler(std::int64_t kv_tokens);
    /// Tokens of a prompt that stands for all, as far as they cross together.
    int planned_prompt() const;
    std::optional<scheduler::HardwareProfile> for_plans(
        const std::optional<scheduler::HardwareProfile>& measured) const;
    Status add_device(std::shared_ptr<const scheduler::Plan> plan, std::uint64_t device_bytes);
    Status take_kv(const KvSizes& sizes);
    std::vector<cache::KvPlacement> kv_placements(int layer, int n_on_device);

    const model::Model& model_;
    const EngineOptions options_;
    const ComputeShape shape_;
    bool wants_device_ = false;
    SystemClock clock_;
    scheduler::TensorCatalog catalog_;
    Residency cpu_only_;
    std::unique_ptr<scheduler::TensorScheduler> scheduler_;
    std::uint64_t plan_bytes_ = 0;                   // of the whole device, for weights and KV
    std::vector<scheduler::GroupTime> group_times_;  // of the last step
    LaneLog lane_log_;
    const kernels::KernelTable* kernels_ = nullptr;
    std::unique_ptr<ThreadPool> pool_;
    std::unique_ptr<backend::CpuBackend> backend_;
    std::shared_ptr<backend::PacedMemory> paced_memory_;  // null unless the CPU is paced
    std::unique_ptr<backend::PacedCpu> paced_cpu_;        // likewise
    std::shared_ptr<backend::AccessChecker> checker_;     // null: nobody watches
    std::unique_ptr<backend::Backend> checked_cpu_;       // likewise
    std::unique_ptr<ExpertUse> expert_use_;
    std::unique_ptr<backend::Backend> device_backend_;  // null: none
    std::unique_ptr<DeviceSide> device_;                // null: none
    std::unique_ptr<cache::KvCache> cache_;
    std::unique_ptr<cache::BlockPool> blocks_;
    std::unique_ptr<KvRecovery> recovery_;
    std::unique_ptr<Executor> executor_;
    int blocks_per_sequence_ = 0;
};

/// A step's times as a scheduler is told of them, without the embedding, which is in no group.
void group_times(std::span<const OpTime> times, std::vector<scheduler::GroupTime>& groups);

}  // namespace ballast::runtime
