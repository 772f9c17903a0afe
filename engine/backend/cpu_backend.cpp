// SPDX-License-Identifier: MIT
// The CPU backend's memory, dispatch and the ops that are a loop over rows.
#include "engine/backend/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <variant>

#include <fmt/format.h>

#include "engine/backend/cpu_parallel.h"
#include "engine/base/check.h"
#include "engine/base/units.h"

namespace ballast::backend {

void copy_rows(std::byte* to,
               std::size_t to_stride,
               const std::byte* from,
               std::size_t from_stride,
               const Strips& strips) {
    for (std::size_t row = 0; row < strips.n_rows; ++row) {
        std::memcpy(to + row * to_stride, from + row * from_stride, strips.row_bytes);
    }
}

CpuBackend::CpuBackend(const kernels::KernelTable& kernels, ThreadPool& pool)
    : kernels_(kernels), pool_(pool), scratch_(static_cast<std::size_t>(pool.size())) {}

CpuBackend::~CpuBackend() {
    for (const auto& [data, size_bytes] : chunks_) {
        munmap(data, size_bytes);
    }
}

std::string CpuBackend::name() const {
    return fmt::format("cpu ({}, {} threads)", isa_name(kernels_.isa), pool_.size());
}

bool CpuBackend::supports(const Op& op, quant::QuantType type) const {
    if (std::holds_alternative<Embed>(op)) {
        return true;  // every known type can be expanded
    }
    if (std::holds_alternative<Linear>(op) || std::holds_alternative<Experts>(op) ||
        std::holds_alternative<Router>(op)) {
        const kernels::LinearKernels linear = kernels_.linear(type);
        return linear.matvec != nullptr && linear.matmul != nullptr;
    }
    if (std::holds_alternative<RmsNorm>(op)) {
        return type == quant::QuantType::kF32;
    }
    return true;
}

Status CpuBackend::reserve(const StepLimits& limits) {
    const auto rows = static_cast<std::size_t>(limits.rows);
    const auto experts_used = static_cast<std::size_t>(limits.experts_used);
    const std::size_t members = rows * experts_used;
    packed_ = AlignedBuffer<std::byte>(rows * kernels_.packed_bytes(round_up(limits.k, 32)));
    for (ThreadScratch& scratch : scratch_) {
        scratch.kernel = AlignedBuffer<std::byte>(
            std::max(kernels_.matmul_scratch_bytes(limits.k), kernels_.attention_scratch_bytes));
        scratch.key_blocks.resize(static_cast<std::size_t>(limits.blocks));
        scratch.value_blocks.resize(static_cast<std::size_t>(limits.blocks));
    }
    // At most one item a row and head (attend()).
    attention_items_.reserve(rows * index_of(limits.heads));
    if (limits.experts > 0) {
        const auto experts = static_cast<std::size_t>(limits.experts);
        routing_.logits = AlignedBuffer<float>(rows * experts);
        routing_.members.resize(members);
        routing_.first.resize(experts + 1);
        routing_.inputs = AlignedBuffer<float>(rows * limits.width);
        routing_.gate = AlignedBuffer<float>(rows * limits.expert_ffn_width);
        routing_.up = AlignedBuffer<float>(rows * limits.expert_ffn_width);
        routing_.results = AlignedBuffer<float>(rows * limits.width);
        routing_.outputs = AlignedBuffer<float>(members * limits.width);
    }
    return {};
}

Result<Chunk> CpuBackend::allocate_chunk(std::size_t size_bytes) {
    void* data =
        mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        ++n_refused_;
        return fail(ErrorCode::kOutOfMemory,
                    fmt::format("cannot allocate {} MiB of memory", size_bytes / kMiB));
    }
    chunks_.emplace(static_cast<std::byte*>(data), size_bytes);
    return Chunk{static_cast<std::byte*>(data), size_bytes};
}

void CpuBackend::free_chunk(Chunk chunk) {
    const auto found = chunks_.find(chunk.data);
    BALLAST_CHECK(found != chunks_.end());
    munmap(found->first, found->second);
    chunks_.erase(found);
}

MemoryUse CpuBackend::memory_use() const {
    MemoryUse use = {.n_refused = n_refused_};
    for (const auto& [data, size_bytes] : chunks_) {
        use.bytes += size_bytes;
    }
    return use;
}

Result<Chunk> CpuBackend::allocate_host(std::size_t size_bytes) {
    constexpr std::size_t kPageBytes = 4 * kKiB;
    BALLAST_TRY(const Chunk chunk, allocate_chunk(size_bytes));
    for (std::size_t i = 0; i < size_bytes; i += kPageBytes) {
        chunk.data[i] = std::byte{0};
    }
    return chunk;
}

Result<Event> CpuBackend::copy_in(std::byte* device, std::span<const std::byte> host) {
    std::memcpy(device, host.data(), host.size());
    return Event{++n_submitted_};
}

Result<Event> CpuBackend::copy_out(std::span<std::byte> host, const std::byte* device) {
    std::memcpy(host.data(), device, host.size());
    return Event{++n_submitted_};
}

Result<Event> CpuBackend::copy_strips_in(Queue /*queue*/,
                                         std::byte* device,
                                         const std::byte* host,
                                         const Strips& strips) {
    copy_rows(device, strips.device_stride, host, strips.host_stride, strips);
    return Event{++n_submitted_};
}

Result<Event> CpuBackend::copy_strips_out(Queue /*queue*/,
                                          std::byte* host,
                                          const std::byte* device,
                                          const Strips& strips) {
    copy_rows(host, strips.host_stride, device, strips.device_stride, strips);
    return Event{++n_submitted_};
}

Result<Event> CpuBackend::submit(std::span<const OpRecord> ops, const StepContext& context) {
    const Rows all{.n = context.input.n_rows(), .n_decode = context.input.n_decode_rows};
    const Rows outputs{.n = static_cast<int>(context.input.output_rows.size()),
                       .n_decode = context.input.n_decode_outputs()};
    for (const OpRecord& record : ops) {
        const Rows rows = record.rows == RowDomain::kAll ? all : outputs;
        if (rows.n > 0) {
            std::visit([&](const auto& op) { run(op, rows, context); }, record.op);
        }
    }
    return Event{++n_submitted_};
}

void CpuBackend::run(const Embed& op, Rows rows, const StepContext& context) {
    const WeightView& table = context.weights[index_of(op.table)];
    const SlotView& out = context.slots[index_of(op.out)];
    for_each(rows.n, table.k, [&](int row) {
        const auto token = index_of(context.input.tokens[index_of(row)]);
        float* x = out.row(index_of(row));
        kernels_.dequantize_row(table.type, table.data + token * table.row_bytes, table.k, x);
        if (op.scale != 1.0F) {
            for (std::size_t i = 0; i < table.k; ++i) {
                x[i] *= op.scale;
            }
        }
    });
}

void CpuBackend::run(const RmsNorm& op, Rows rows, const StepContext& context) {
    const SlotView& in = context.slots[index_of(op.in)];
    const SlotView& out = context.slots[index_of(op.out)];
    const float* weight = context.weights[index_of(op.weight)].floats();
    const auto width = index_of(op.width);
    for_each(rows.n, width * index_of(op.n_groups), [&](int row) {
        for (std::size_t group = 0; group < index_of(op.n_groups); ++group) {
            kernels_.rms_norm(in.row(index_of(row)) + group * width,
                              weight,
                              width,
                              op.epsilon,
                              out.row(index_of(row)) + group * width);
        }
    });
}

void CpuBackend::run(const Rope& op, Rows rows, const StepContext& context) {
    const RopeView& table = context.rope[index_of(op.table)];
    const SlotView& q = context.slots[index_of(op.q)];
    const SlotView& k = context.slots[index_of(op.k)];
    const auto head_dim = index_of(op.head_dim);
    const auto n_rotated = index_of(op.n_rotated);
    for_each(rows.n, q.width + k.width, [&](int row) {
        const float* cos = table.cos + index_of(row) * table.half;
        const float* sin = table.sin + index_of(row) * table.half;
        for (std::size_t head = 0; head < index_of(op.n_heads); ++head) {
            float* x = q.row(index_of(row)) + head * head_dim;
            kernels_.rope(x, cos, sin, n_rotated, op.interleaved);
        }
        for (std::size_t head = 0; head < index_of(op.n_kv_heads); ++head) {
            float* x = k.row(index_of(row)) + head * head_dim;
            kernels_.rope(x, cos, sin, n_rotated, op.interleaved);
        }
    });
}

void CpuBackend::run(const GatedActivation& op, Rows rows, const StepContext& context) {
    const SlotView& gate = context.slots[index_of(op.gate)];
    const SlotView& up = context.slots[index_of(op.up)];
    const SlotView& out = context.slots[index_of(op.out)];
    const auto activate =
        op.activation == Activation::kSilu ? kernels_.silu_multiply : kernels_.gelu_multiply;
    // An exponential costs about eight plain element operations.
    for_each(rows.n, index_of(op.width) * 8, [&](int row) {
        activate(gate.row(index_of(row)),
                 up.row(index_of(row)),
                 index_of(op.width),
                 out.row(index_of(row)));
    });
}

void CpuBackend::run(const Add& op, Rows rows, const StepContext& context) {
    const SlotView& x = context.slots[index_of(op.x)];
    const SlotView& y = context.slots[index_of(op.y)];
    for_each(rows.n, index_of(op.width), [&](int row) {
        kernels_.add(x.row(index_of(row)), y.row(index_of(row)), index_of(op.width));
    });
}

void CpuBackend::run(const GatherOutputs& op, Rows /*rows*/, const StepContext& context) {
    const SlotView& in = context.slots[index_of(op.in)];
    const SlotView& out = context.slots[index_of(op.out)];
    for (std::size_t i = 0; i < context.input.output_rows.size(); ++i) {
        const float* x = in.row(index_of(context.input.output_rows[i]));
        std::copy(x, x + op.width, out.row(i));
    }
}

}  // namespace ballast::backend
