// SPDX-License-Identifier: MIT
// Memory for the slots, angles for the rows, and the submission of ops.
#include "engine/runtime/executor.h"

#include <cmath>
#include <variant>

#include <fmt/format.h>

#include "engine/base/check.h"

namespace ballast::runtime {

namespace {

backend::StepLimits step_limits(const model::Model& model, const ExecutorLimits& limits) {
    const model::ModelConfig& config = model.config();
    std::size_t longest_row = 0;
    for (const backend::WeightView& view : model.weights().views()) {
        longest_row = std::max(longest_row, view.k);
    }
    return {.rows = limits.rows,
            .outputs = limits.outputs,
            .heads = config.n_heads,
            .blocks = (limits.context + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens,
            .k = longest_row,
            .experts = config.n_experts,
            .experts_used = config.n_experts_used,
            .width = static_cast<std::size_t>(config.width),
            .expert_ffn_width = static_cast<std::size_t>(config.ffn_width)};
}

/// The weight units an op multiplies with.
std::vector<backend::UnitId> units_of(const backend::Op& op) {
    if (const auto* embed = std::get_if<backend::Embed>(&op)) {
        return {embed->table};
    }
    if (const auto* linear = std::get_if<backend::Linear>(&op)) {
        return {linear->weights.begin(), linear->weights.begin() + linear->n_matrices};
    }
    if (const auto* router = std::get_if<backend::Router>(&op)) {
        return {router->weight};
    }
    if (const auto* experts = std::get_if<backend::Experts>(&op)) {
        return {experts->gate, experts->up, experts->down};
    }
    return {};
}

/// kUnsupported naming the first tensor whose type the backend has no kernels for.
Status check_supported(const model::Model& model, const backend::Backend& backend) {
    for (const backend::OpRecord& record : model.ops().records()) {
        for (const backend::UnitId unit : units_of(record.op)) {
            const quant::QuantType type =
                model.weights().views()[static_cast<std::size_t>(unit)].type;
            if (!backend.supports(record.op, type)) {
                return fail(ErrorCode::kUnsupported,
                            fmt::format("tensor {} is {}, for which {} has no kernels",
                                        model.weights().name(unit),
                                        quant::traits(type).name,
                                        backend.name()));
            }
        }
    }
    return {};
}

}  // namespace

Executor::Executor(const model::Model& model, backend::Backend& backend, cache::KvCache& cache)
    : model_(model), backend_(backend), cache_(cache) {}

Result<std::unique_ptr<Executor>> Executor::create(const model::Model& model,
                                                   backend::Backend& backend,
                                                   cache::KvCache& cache,
                                                   const ExecutorLimits& limits) {
    BALLAST_TRY_STATUS(check_supported(model, backend));
    std::unique_ptr<Executor> executor(new Executor(model, backend, cache));
    BALLAST_TRY_STATUS(executor->allocate(limits));
    return executor;
}

Status Executor::allocate(const ExecutorLimits& limits) {
    limits_ = limits;
    BALLAST_TRY_STATUS(backend_.reserve(step_limits(model_, limits)));
    for (const model::OpsList::Slot& slot : model_.ops().slots()) {
        const int rows = slot.rows == backend::RowDomain::kAll ? limits.rows : limits.outputs;
        const auto width = static_cast<std::size_t>(slot.width);
        BALLAST_TRY(
            backend::Chunk chunk,
            backend_.allocate_chunk(static_cast<std::size_t>(rows) * width * sizeof(float)));
        chunks_.push_back(chunk);
        // A chunk is aligned to a page, which suits float.
        slots_.push_back(
            {.data = static_cast<float*>(static_cast<void*>(chunk.data)), .width = width});
    }
    for (const model::RopeTable& table : model_.ops().rope_tables()) {
        const std::size_t size = static_cast<std::size_t>(limits.rows) * table.rates.size();
        RopeMemory& memory = rope_.emplace_back();
        memory.rates = table.rates;
        memory.cos = AlignedBuffer<float>(size);
        memory.sin = AlignedBuffer<float>(size);
        rope_views_.push_back(
            {.cos = memory.cos.data(), .sin = memory.sin.data(), .half = table.rates.size()});
    }
    context_.weights = model_.weights().views();
    context_.slots = slots_;
    context_.kv = cache_.layers();
    context_.rope = rope_views_;
    return {};
}

Executor::~Executor() {
    for (const backend::Chunk& chunk : chunks_) {
        backend_.free_chunk(chunk);
    }
}

void Executor::fill_rope(const backend::StepInput& input) {
    for (RopeMemory& memory : rope_) {
        const std::size_t half = memory.rates.size();
        for (const backend::SequenceRows& sequence : input.sequences) {
            for (int i = 0; i < sequence.n_rows; ++i) {
                const auto position = static_cast<double>(sequence.first_position + i);
                const std::size_t begin = static_cast<std::size_t>(sequence.first_row + i) * half;
                for (std::size_t pair = 0; pair < half; ++pair) {
                    const double angle = position * memory.rates[pair];
                    memory.cos[begin + pair] = static_cast<float>(std::cos(angle));
                    memory.sin[begin + pair] = static_cast<float>(std::sin(angle));
                }
            }
        }
    }
}

void Executor::begin(const backend::StepInput& input) {
    BALLAST_CHECK(input.n_rows() <= limits_.rows);
    BALLAST_CHECK(static_cast<int>(input.output_rows.size()) <= limits_.outputs);
    context_.input = input;
    fill_rope(input);
}

Status Executor::run_segments(int first, int last) {
    BALLAST_TRY(const backend::Event event,
                backend_.submit(model_.ops().segments(first, last), context_));
    return backend_.wait(event);
}

Status Executor::run(const backend::StepInput& input) {
    begin(input);
    return run_segments(0, model_.ops().n_segments());
}

std::span<float> Executor::logits(int output) {
    const backend::SlotView& slot = slots_[static_cast<std::size_t>(model_.logits())];
    return {slot.row(static_cast<std::size_t>(output)), slot.width};
}

}  // namespace ballast::runtime
