// SPDX-License-Identifier: MIT
// Checks the options and builds the parts from the threads up.
#include "engine/runtime/compute.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/base/log.h"
#include "engine/base/system_info.h"
#include "engine/base/units.h"
#include "engine/runtime/assumed_hardware.h"
#include "engine/runtime/device_choice.h"

namespace ballast::runtime {

namespace {

// Of the computer's memory, the most that copies of keys and values take.
constexpr std::uint64_t kMirrorPart = 8;

/// What the executor can follow, as far as it is wanted.
scheduler::Ladder ladder_for(const EngineOptions& options) {
    const bool divides = options.divide_groups;
    return {.splits = divides,
            .streams = divides,
            .prefill_streams = divides,
            .attention_prefill = false,
            .router_streams = false};
}

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

/// The model's catalog with keys and values of this type. Groups that are not to be divided are of
/// one part; experts stay what they are.
scheduler::TensorCatalog catalog_for(const model::Model& model, kernels::KvType type, bool whole) {
    scheduler::TensorCatalog catalog = model.catalog();
    const std::uint64_t element_bytes = type == kernels::KvType::kF16 ? 2 : 4;
    for (scheduler::TensorGroup& group : catalog.groups) {
        group.kv_bytes_per_token =
            group.kv_bytes_per_token / model::Model::kCatalogKvBytes * element_bytes;
        if (whole && group.kind != scheduler::GroupKind::kExperts) {
            group.parts = 1;
        }
    }
    return catalog;
}

ExecutorLimits limits_of(const ComputeShape& shape) {
    return {.rows = shape.rows,
            .outputs = shape.outputs,
            .context = shape.context,
            .super_rows = shape.super_rows};
}

/// Who watches what device and CPU touch; null: nobody.
std::shared_ptr<backend::AccessChecker> checker_for(const ComputeShape& shape) {
    if (shape.checker == nullptr && kDebugChecks && !shape.unchecked) {
        return std::make_shared<backend::AccessChecker>();
    }
    return shape.checker;
}

}  // namespace

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
    std::unique_ptr<Compute> compute(new Compute(model, options, shape));
    BALLAST_TRY(const kernels::KvType kv_type, parse_kv_type(options.kv_type));
    BALLAST_TRY(const int n_threads, compute_threads(options));
    BALLAST_TRY(compute->wants_device_, runtime::wants_device(options));
    BALLAST_TRY(compute->kernels_, kernels::choose_kernels(options.force_isa));
    compute->pool_ = std::make_unique<ThreadPool>(n_threads);
    compute->backend_ = std::make_unique<backend::CpuBackend>(*compute->kernels_, *compute->pool_);
    if (shape.cpu_pace.is_set()) {
        compute->paced_memory_ =
            std::make_shared<backend::PacedMemory>(compute->clock_, shape.cpu_pace.dram_gbps);
        compute->paced_cpu_ = std::make_unique<backend::PacedCpu>(
            *compute->backend_, compute->clock_, shape.cpu_pace, compute->paced_memory_);
    }
    compute->checker_ = compute->wants_device_ ? checker_for(shape) : nullptr;
    if (compute->checker_ != nullptr) {
        compute->checked_cpu_ =
            std::make_unique<backend::CheckedBackend>(compute->unchecked_cpu(), compute->checker_);
    }
    compute->catalog_ =
        catalog_for(model, kv_type, !options.divide_groups && shape.plan == nullptr);
    compute->cpu_only_.groups.resize(compute->catalog_.groups.size());
    BALLAST_TRY(const std::vector<GroupOps> groups, group_ops(model.ops(), compute->catalog_));
    compute->expert_use_ = std::make_unique<ExpertUse>(model, groups);

    const model::ModelConfig& config = model.config();
    compute->blocks_per_sequence_ =
        (shape.context + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
    const KvSizes kv{.shape = {.n_layers = config.n_layers,
                               .n_kv_heads = config.n_kv_heads,
                               .head_dim = config.head_dim,
                               .type = kv_type},
                     .n_blocks = shape.sequences * compute->blocks_per_sequence_};
    const std::int64_t kv_tokens = std::int64_t{kv.n_blocks} * kernels::kKvBlockTokens;
    compute->cpu_only_.kv_tokens = kv_tokens;
    if (compute->wants_device_) {
        compute->plan_bytes_ = compute->room_of(device_budget(options));
    }
    compute->add_scheduler(kv_tokens);
    const std::uint64_t device_bytes = compute->first_device_bytes();
    if (device_bytes > 0) {
        BALLAST_TRY_STATUS(compute->add_device(
            shape.plan ? shape.plan : compute->scheduler_->plan(), device_bytes));
    }
    BALLAST_TRY_STATUS(compute->take_kv(kv));
    compute->blocks_ = std::make_unique<cache::BlockPool>(kv.n_blocks);
    if (compute->device_ != nullptr) {
        compute->device_->settle(kv_tokens);
        if (!compute->residency().degraded.empty()) {
            log_warning("{}", compute->residency().degraded);
        }
    }
    compute->recovery_ = std::make_unique<KvRecovery>(
        *compute->cache_,
        *compute->blocks_,
        compute->cpu(),
        std::min(options.kv_mirror_bytes, read_memory_info().total_bytes / kMirrorPart));
    BALLAST_TRY_STATUS(compute->make_executor(compute->device_.get()));
    if (compute->device_ != nullptr) {
        compute->recovery_->begin(*compute->device_backend_);
    }
    return compute;
}

std::uint64_t Compute::first_device_bytes() const {
    const std::uint64_t most = wants_device_ ? device_budget(options_) : 0;
    return std::min(shape_.device_bytes.value_or(most), most);
}

Status Compute::make_executor(DeviceSide* device) {
    BALLAST_TRY(executor_,
                Executor::create({.model = model_,
                                  .catalog = catalog_,
                                  .cpu = cpu(),
                                  .device = device,
                                  .cache = *cache_,
                                  .expert_use = *expert_use_,
                                  .clock = clock_,
                                  .log = lane_log_},
                                 limits_of(shape_)));
    return {};
}

std::uint64_t Compute::padding_bytes() const {
    // Tensors begin on 64-byte borders; a group has fewer than 32 of them.
    constexpr std::uint64_t kPaddingOfGroup = 64 * 32;
    return kPaddingOfGroup * catalog_.groups.size();
}

std::uint64_t Compute::step_bytes() const {
    const StepBytes step = device_step_bytes(model_, limits_of(shape_));
    return step.layers + (options_.divide_groups ? step.sums : 0) + step.head + padding_bytes();
}

std::uint64_t Compute::room_of(std::uint64_t device_bytes) const {
    return device_bytes - std::min(device_bytes, step_bytes());
}

std::optional<scheduler::HardwareProfile> Compute::for_plans(
    const std::optional<scheduler::HardwareProfile>& measured) const {
    if (plan_bytes_ > 0) {
        return host_device_hardware(measured, plan_bytes_);
    }
    std::optional<scheduler::HardwareProfile> hardware = measured;
    if (hardware) {
        hardware->has_device = false;  // whatever the profile knows of, none is used
    }
    return hardware;
}

void Compute::add_scheduler(std::int64_t kv_tokens) {
    group_times_.reserve(catalog_.groups.size() + 1);
    scheduler_ = std::make_unique<scheduler::TensorScheduler>(
        scheduler::SchedulerSetup{
            .catalog = catalog_,
            .hardware = for_plans(shape_.hardware),
            .device_bytes = static_cast<double>(room_of(first_device_bytes())),
            .reserve = {.tokens = kv_tokens},
            .context = shape_.context,
            .prefill_tokens = planned_prompt(),
            // Without a pace the device "host" is as slow as the cores that it shares.
            .plans_by_profile = !shape_.host.pace.is_set(),
            .ladder = ladder_for(options_)},
        clock_);
}

int Compute::planned_prompt() const {
    if (shape_.super_rows == 0) {
        return std::max(options_.prefill_chunk, 2);
    }
    return std::clamp(
        std::min(shape_.super_rows, shape_.context / 2), 2, scheduler::kPlannedPromptMax);
}

void Compute::set_measured_hardware(scheduler::HardwareProfile hardware) {
    scheduler_->set_hardware(*for_plans(std::move(hardware)));
}

Status Compute::add_device(std::shared_ptr<const scheduler::Plan> plan,
                           std::uint64_t device_bytes) {
    BALLAST_TRY(const auto slot_rule, parse_slot_rule(options_.expert_slots));
    if (device_backend_ == nullptr) {
        backend::HostOptions host = shape_.host;
        host.shared_memory = paced_memory_;
        device_backend_ = make_device(options_, *kernels_, clock_, pool_->size(), host);
        if (checker_ != nullptr) {
            device_backend_ =
                std::make_unique<backend::CheckedBackend>(std::move(device_backend_), checker_);
        }
    }
    std::vector<std::size_t> order;
    if (scheduler_->costs() && shape_.plan == nullptr) {
        order = scheduler_->residency().eviction_order(scheduler_->step_model({}), plan->placement);
    }
    BALLAST_TRY(device_,
                DeviceSide::create({.model = &model_,
                                    .catalog = &catalog_,
                                    .backend = device_backend_.get(),
                                    .log = &lane_log_,
                                    .plan = std::move(plan),
                                    .budget_bytes = device_bytes,
                                    .limits = limits_of(shape_),
                                    .tile_bytes = shape_.tile_bytes,
                                    .eviction_order = std::move(order),
                                    .slot_rule = slot_rule,
                                    .expert_use = expert_use_.get()}));
    return {};
}

void group_times(std::span<const OpTime> times, std::vector<scheduler::GroupTime>& groups) {
    groups.clear();
    for (const OpTime& time : times) {
        if (time.first_group >= 0) {
            const bool on_cpu = time.device == DeviceId::kCpu;
            groups.push_back({.first_group = time.first_group,
                              .n_groups = time.n_groups,
                              .side = on_cpu ? scheduler::Side::kCpu : scheduler::Side::kDevice,
                              .share = time.share,
                              .seconds = to_seconds(time.busy)});
        }
    }
}

void Compute::note_decode(int depth, Nanoseconds duration) {
    group_times(executor_->op_times(), group_times_);
    scheduler_->observe_decode(depth, to_seconds(duration), group_times_);
}

std::vector<cache::KvPlacement> Compute::kv_placements(int layer, int n_on_device) {
    const int n_heads = model_.config().n_kv_heads;
    std::vector<cache::KvPlacement> placements;
    if (n_on_device > 0) {
        placements.push_back(
            {.layer = layer, .n_heads = n_on_device, .backend = device_backend_.get()});
    }
    if (n_on_device < n_heads) {
        placements.push_back({.layer = layer,
                              .first_head = n_on_device,
                              .n_heads = n_heads - n_on_device,
                              .backend = &cpu()});
    }
    return placements;
}

Status Compute::take_kv(const KvSizes& sizes) {
    std::vector<cache::KvPlacement> placements;
    for (int layer = 0; layer < sizes.shape.n_layers; ++layer) {
        const int n_there = device_ != nullptr ? device_->attending_heads(layer) : 0;
        for (cache::KvPlacement& placement : kv_placements(layer, n_there)) {
            if (placement.backend != &cpu()) {
                placement.fallback = &cpu();
            }
            placements.push_back(placement);
        }
    }
    BALLAST_TRY(cache_, cache::KvCache::create(sizes.shape, sizes.n_blocks, placements));
    for (int layer = 0; layer < sizes.shape.n_layers && device_ != nullptr; ++layer) {
        if (cache_->n_heads_on(layer, DeviceId::kDevice) < device_->attending_heads(layer)) {
            device_->give_up_attention(layer);
        }
    }
    return {};
}

TransferStats Compute::transfers() const {
    TransferStats all = lane_log_.stats();
    all.count(TransferDirection::kIn, TransferReason::kKv, cache_->crossed().in_bytes);
    all.count(TransferDirection::kOut, TransferReason::kKv, cache_->crossed().out_bytes);
    return all;
}

const Residency& Compute::residency() const {
    return device_ != nullptr ? device_->residency() : cpu_only_;
}

std::string Compute::device_summary() const {
    if (device_ == nullptr) {
        return "";
    }
    const Residency& facts = device_->residency();
    return fmt::format("{} computes {} of the {} groups of tensors and holds {:.1f} MiB",
                       device_backend_->name(),
                       facts.n_on_device(),
                       facts.groups.size(),
                       static_cast<double>(facts.device_bytes()) / static_cast<double>(kMiB));
}

}  // namespace ballast::runtime
