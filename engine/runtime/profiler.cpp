// SPDX-License-Identifier: MIT
// A list of stages, each a probe and its samples, worked off one sample a slice.
#include "engine/runtime/profiler.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "engine/backend/cpu_backend.h"
#include "engine/base/byte_size.h"
#include "engine/base/system_info.h"
#include "engine/base/units.h"
#include "engine/runtime/device_probes.h"
#include "engine/runtime/profile_stage.h"

namespace ballast::runtime {

namespace {

using backend::WeightView;
using quant::QuantType;

constexpr std::array<int, 4> kBatches = {1, 8, 64, 512};
constexpr int kBatchMax = 512;
constexpr std::array<int, 2> kAttentionBatches = {1, 64};
// Samples taken again at most, so that all of it stays below ten seconds on a busy machine too.
constexpr std::size_t kDisturbedMax = 64;
// Reads must come from memory: this many times what the caches hold lies between two visits.
constexpr std::size_t kCachesBuffer = 4;
constexpr std::size_t kCachesMin = 2;
// Where the caches are unknown.
constexpr std::size_t kCacheBytesAssumed = 64 * kMiB;
constexpr std::size_t kBufferBytesMin = 512 * kMiB;
// Of the memory that is free, so that others are not pushed out.
constexpr std::size_t kMemoryShare = 8;

/// How often a thread of this process had to make room for another program's.
std::int64_t preemptions() {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

std::string_view type_name(QuantType type) {
    return quant::traits(type).name;
}

/// What is taken of the device, and for it: each past the caches, and no more than it has.
DeviceSizes device_sizes(const ProfilerOptions& options) {
    const std::uint64_t beside = DeviceProbes::bytes_beside_weights(options.row_length);
    const std::uint64_t room = options.device_bytes > beside ? options.device_bytes - beside : 0;
    return {.pinned_bytes = kCachesMin * options.cache_bytes,
            .weight_bytes =
                static_cast<std::size_t>(std::min<std::uint64_t>(options.memory_bytes, room)),
            .row_length = options.row_length};
}

Status check_room(const DeviceSizes& sizes, const ProfilerOptions& options) {
    const std::size_t least =
        std::max(kCachesMin * options.cache_bytes, ProbeMemory::kSegmentBytes);
    if (sizes.weight_bytes >= least) {
        return {};
    }
    const std::uint64_t wanted = DeviceProbes::bytes_beside_weights(options.row_length) + least;
    return fail(ErrorCode::kOutOfMemory,
                fmt::format("the device's {} are too little to measure past {} MiB of cache; it "
                            "takes {} MiB",
                            format_byte_size(options.device_bytes),
                            options.cache_bytes / kMiB,
                            (wanted + kMiB - 1) / kMiB));
}

}  // namespace

struct Profiler::State {
    State(ThreadPool& threads,
          const kernels::KernelTable& kernels,
          const Clock& time,
          ProfilerOptions wanted)
        : pool(threads),
          clock(time),
          options(std::move(wanted)),
          memory(options.memory_bytes),
          cpu(kernels, threads),
          step(cpu, threads.size()) {
        if (options.machine && options.device != nullptr) {
            device = std::make_unique<DeviceProbes>(
                DeviceParts{
                    .device = *options.device, .memory = memory, .pool = threads, .clock = time},
                device_sizes(options));
        }
    }

    void add_stages();
    void add_ops(const ProfileFormat& format);
    void add_attention();
    backend::StepLimits limits() const;
    std::vector<WeightView> made_up(QuantType type, std::size_t k, std::size_t rows_max);
    std::vector<WeightView> matrices_for(const ProfileFormat& format);
    void add(Stage stage) { stages.push_back(std::move(stage)); }
    Status sample();

    ThreadPool& pool;
    const Clock& clock;
    ProfilerOptions options;
    ProbeMemory memory;
    backend::CpuBackend cpu;
    ProbeStep step;
    std::unique_ptr<DeviceProbes> device;  // null: none is measured
    bool reserved = false;
    std::vector<Stage> stages;
    std::size_t current = 0;
    bool last_sampled = false;
    std::size_t n_disturbed = 0;  // of all stages
};

Result<std::unique_ptr<Profiler>> Profiler::create(ThreadPool& pool,
                                                   const kernels::KernelTable& kernels,
                                                   const Clock& clock,
                                                   ProfilerOptions options) {
    if (options.cache_bytes == 0) {
        options.cache_bytes = last_level_cache_bytes();
    }
    if (options.cache_bytes == 0) {
        options.cache_bytes = kCacheBytesAssumed;
    }
    if (options.memory_bytes == 0) {
        options.memory_bytes = std::max(kCachesBuffer * options.cache_bytes, kBufferBytesMin);
        if (const std::uint64_t free = read_memory_info().available_bytes; free != 0) {
            options.memory_bytes =
                std::min(options.memory_bytes, static_cast<std::size_t>(free / kMemoryShare));
        }
    }
    if (options.memory_bytes < kCachesMin * options.cache_bytes ||
        options.memory_bytes < 2 * ProbeMemory::kSegmentBytes) {
        return fail(ErrorCode::kOutOfMemory,
                    fmt::format("too little memory is free to measure past {} MiB of cache",
                                options.cache_bytes / kMiB));
    }
    if (options.machine && options.device != nullptr) {
        BALLAST_TRY_STATUS(check_room(device_sizes(options), options));
    }
    auto state = std::make_unique<State>(pool, kernels, clock, std::move(options));
    return std::unique_ptr<Profiler>(new Profiler(std::move(state)));
}

Profiler::Profiler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Profiler::~Profiler() = default;

/// Matrices of a type in the memory of the reads, as large as one segment holds.
std::vector<WeightView> Profiler::State::made_up(QuantType type,
                                                 std::size_t k,
                                                 std::size_t rows_max) {
    std::vector<WeightView> matrices;
    for (std::size_t i = 0; i < memory.n_segments(); ++i) {
        const auto more = matrices_in(std::as_bytes(memory.segment(i)), type, k, rows_max);
        matrices.insert(matrices.end(), more.begin(), more.end());
    }
    return matrices;
}

/// The model's own matrices, or their likes where the model has too few to get past the caches.
std::vector<WeightView> Profiler::State::matrices_for(const ProfileFormat& format) {
    if (format.matrices.empty()) {
        return made_up(format.type, options.row_length, ProbeStep::kRowsMax);
    }
    if (bytes_of(format.matrices) < kCachesMin * options.cache_bytes) {
        const auto largest = std::max_element(
            format.matrices.begin(), format.matrices.end(), [](const auto& a, const auto& b) {
                return a.slice_bytes() < b.slice_bytes();
            });
        return made_up(format.type, largest->k, largest->n_rows);
    }
    std::vector<WeightView> matrices;
    for (const WeightView& matrix : format.matrices) {
        if (bytes_of(matrices) >= options.memory_bytes) {
            break;
        }
        matrices.push_back(matrix);
    }
    return matrices;
}

void Profiler::State::add_ops(const ProfileFormat& format) {
    const std::vector<WeightView> matrices = matrices_for(format);
    if (!step.supports(format.type) || matrices.empty()) {
        return;
    }
    add({.name = fmt::format("{} weights", type_name(format.type)),
         .probe = std::make_unique<TouchProbe>(matrices, clock)});
    for (const int tokens : kBatches) {
        add({.purpose = Purpose::kOp,
             .name = fmt::format("linear {}, {} tokens", type_name(format.type), tokens),
             .op = "linear",
             .type = format.type,
             .tokens = tokens,
             .probe = std::make_unique<LinearProbe>(step, matrices, tokens, clock)});
    }
}

void Profiler::State::add_attention() {
    for (const int tokens : kAttentionBatches) {
        add({.purpose = Purpose::kOp,
             .name = fmt::format("attention F16, {} tokens", tokens),
             .op = "attention",
             .type = QuantType::kF16,
             .tokens = tokens,
             .probe =
                 std::make_unique<AttentionProbe>(step, memory, options.attention, tokens, clock)});
    }
}

void Profiler::State::add_stages() {
    if (options.machine) {
        add({.purpose = Purpose::kRead,
             .name = fmt::format("CPU reads, {} threads", pool.size()),
             .probe = std::make_unique<ReadProbe>(memory, &pool, clock)});
        add({.purpose = Purpose::kReadOneThread,
             .name = "CPU reads, 1 thread",
             .probe = std::make_unique<ReadProbe>(memory, nullptr, clock)});
        add({.purpose = Purpose::kCopy,
             .name = "copies, 1 thread",
             .probe = std::make_unique<CopyProbe>(memory, clock)});
        for (const QuantType type : {QuantType::kQ8_0, QuantType::kQ4_K}) {
            add({.purpose = Purpose::kArithmetic,
                 .name = fmt::format("arithmetic {}, {} tokens", type_name(type), kBatchMax),
                 .type = type,
                 .tokens = kBatchMax,
                 .probe = std::make_unique<LinearProbe>(
                     step,
                     made_up(type, options.row_length, ProbeStep::kRowsMax),
                     kBatchMax,
                     clock)});
        }
    }
    for (const ProfileFormat& format : options.formats) {
        add_ops(format);
    }
    if (options.machine && AttentionProbe::fits(options.attention)) {
        add_attention();
    }
    if (device != nullptr) {
        device->add_stages(stages);
    }
}

backend::StepLimits Profiler::State::limits() const {
    const AttentionShape& shape = options.attention;
    std::size_t k = std::max(
        options.row_length,
        static_cast<std::size_t>(shape.n_heads) * static_cast<std::size_t>(shape.head_dim));
    for (const ProfileFormat& format : options.formats) {
        for (const WeightView& matrix : format.matrices) {
            k = std::max(k, matrix.k);
        }
    }
    return {.rows = kBatchMax, .heads = shape.n_heads, .blocks = AttentionProbe::kBlocks, .k = k};
}

bool Profiler::done() const {
    return state_->reserved && state_->current == state_->stages.size();
}

Status Profiler::run_slice() {
    State& state = *state_;
    state.last_sampled = false;
    if (state.memory.n_taken() < state.memory.n_segments()) {
        state.memory.grow();
        return {};
    }
    if (!state.reserved) {
        if (state.device != nullptr && !state.device->ready()) {
            return state.device->take();
        }
        BALLAST_TRY_STATUS(state.step.reserve(state.limits()));
        state.add_stages();
        state.reserved = true;
        return {};
    }
    return state.current < state.stages.size() ? state.sample() : Status();
}

Status Profiler::State::sample() {
    Stage& stage = stages[current];
    const std::int64_t before = preemptions();
    Result<Sample> sample = stage.probe->sample();
    // Not for ever: where others never rest, their share is part of what there is.
    const bool disturbed = preemptions() != before || (sample && sample->disturbed);
    const bool again =
        disturbed && stage.n_disturbed < stage.n_wanted() && n_disturbed < kDisturbedMax;
    if (!sample && sample.error().code != ErrorCode::kUnsupported) {
        return tl::unexpected<Error>(sample.error());
    }
    if (!sample) {
        stage.skipped = true;
    } else if (stage.purpose == Purpose::kNothing) {
        stage.skipped = sample->bytes == 0.0;
    } else if (again) {
        ++stage.n_disturbed;
        ++n_disturbed;
    } else {
        stage.samples.push_back(*sample);
        last_sampled = true;
    }
    if (stage.skipped || stage.samples.size() == stage.n_wanted()) {
        ++current;
    }
    return {};
}

void Profiler::drop_slice() {
    State& state = *state_;
    if (!std::exchange(state.last_sampled, false)) {
        return;
    }
    if (state.current == state.stages.size() || state.stages[state.current].samples.empty()) {
        --state.current;
    }
    state.stages[state.current].samples.pop_back();
}

double Profiler::progress() const {
    const State& state = *state_;
    // Before the stages are there, a fifth of the time goes into taking memory.
    constexpr double kMemoryPart = 0.2;
    const double taken = static_cast<double>(state.memory.n_taken()) /
                         static_cast<double>(state.memory.n_segments());
    if (done() || !state.reserved) {
        return done() ? 1.0 : kMemoryPart * taken;
    }
    return kMemoryPart + (1.0 - kMemoryPart) * static_cast<double>(state.current) /
                             static_cast<double>(state.stages.size());
}

std::string Profiler::doing() const {
    const State& state = *state_;
    if (!state.reserved) {
        return "taking memory";
    }
    return done() ? "done" : state.stages[state.current].name;
}

int Profiler::n_disturbed() const {
    return static_cast<int>(state_->n_disturbed);
}

std::vector<Figure> Profiler::figures() const {
    return figures_of(state_->stages);
}

void Profiler::fill(scheduler::HardwareProfile& profile) const {
    const ProfilerOptions& options = state_->options;
    fill_profile(state_->stages, profile);
    // So slow that a prompt's batch was left out: what any op has reached.
    if (options.machine && profile.cpu_tflops == 0.0) {
        profile.cpu_tflops = rounded(state_->step.tflops());
    }
    if (state_->device != nullptr) {
        profile.has_device = true;
        profile.unified_memory = false;
        profile.device_memory_gb = static_cast<double>(options.device_bytes) * 1e-9;
        if (profile.device_tflops == 0.0) {
            profile.device_tflops = rounded(state_->device->tflops());
        }
    }
}

}  // namespace ballast::runtime
