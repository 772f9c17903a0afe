// SPDX-License-Identifier: MIT
// Memory for the slots, angles for the rows, and the submission of ops.
#include "engine/runtime/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "engine/backend/op_access.h"
#include "engine/backend/put_or_wait.h"
#include "engine/base/check.h"

namespace ballast::runtime {

namespace {

/// kUnsupported naming the first tensor whose type the CPU has no kernels for: it must be able to
/// run everything.
Status check_supported(const model::Model& model, const backend::Backend& cpu) {
    for (const backend::OpRecord& record : model.ops().records()) {
        const backend::OpAccess access(record.op);
        for (const backend::UnitId unit : access.units()) {
            const quant::QuantType type =
                model.weights().views()[static_cast<std::size_t>(unit)].type;
            if (!cpu.supports(record.op, type)) {
                return fail(ErrorCode::kUnsupported,
                            fmt::format("tensor {} is {}, for which {} has no kernels",
                                        model.weights().name(unit),
                                        quant::traits(type).name,
                                        cpu.name()));
            }
        }
    }
    return {};
}

std::byte* bytes_at(float* memory) {
    return static_cast<std::byte*>(static_cast<void*>(memory));
}

const std::byte* bytes_at(const float* memory) {
    return static_cast<const std::byte*>(static_cast<const void*>(memory));
}

}  // namespace

Executor::Executor(const Parts& parts) : parts_(parts) {}

Result<std::unique_ptr<Executor>> Executor::create(const Parts& parts,
                                                   const ExecutorLimits& limits) {
    BALLAST_TRY_STATUS(check_supported(parts.model, parts.cpu));
    std::unique_ptr<Executor> executor(new Executor(parts));
    if (parts.device != nullptr) {
        for (const StepKind kind : kStepKinds) {
            executor->bounds_[static_cast<std::size_t>(kind)].program = parts.device->program(kind);
        }
    } else {
        BALLAST_TRY(const std::vector<GroupOps> groups,
                    group_ops(parts.model.ops(), parts.catalog));
        const std::vector<GroupDivision> alone(parts.catalog.groups.size());
        for (Bound& bound : executor->bounds_) {
            bound.program = make_step_program(parts.model, groups, alone, scheduler::kTileBytesMax);
        }
    }
    BALLAST_TRY_STATUS(executor->allocate(limits));
    return executor;
}

Status Executor::allocate(const ExecutorLimits& limits) {
    limits_ = limits;
    const model::OpsList& ops = parts_.model.ops();
    BALLAST_TRY_STATUS(parts_.cpu.reserve(step_limits(parts_.model, limits)));
    // Without a device nobody adds up two sides' sums.
    const std::size_t n_slots = ops.slots().size() + (parts_.device != nullptr ? kAddedSlots : 0);
    for (std::size_t i = 0; i < n_slots; ++i) {
        const StepSlot& slot = bounds_[0].program.slots[i];
        BALLAST_TRY(backend::Chunk chunk,
                    parts_.cpu.allocate_chunk(slot_floats(slot, limits) * sizeof(float)));
        chunks_.push_back(chunk);
        // A chunk is aligned to a page, which suits float.
        memory_.push_back({.data = static_cast<float*>(static_cast<void*>(chunk.data)),
                           .width = static_cast<std::size_t>(slot.width)});
    }
    memory_.resize(bounds_[0].program.device_slots.size());
    for (const model::RopeTable& table : ops.rope_tables()) {
        const std::size_t size = static_cast<std::size_t>(limits.rows) * table.rates.size();
        RopeMemory& memory = rope_.emplace_back();
        memory.rates = table.rates;
        memory.cos = AlignedBuffer<float>(size);
        memory.sin = AlignedBuffer<float>(size);
        rope_views_.push_back(
            {.cos = memory.cos.data(), .sin = memory.sin.data(), .half = table.rates.size()});
    }
    std::size_t n_actions = 0;
    std::size_t n_fetches = 0;
    for (Bound& bound : bounds_) {
        bind(bound);
        n_actions = std::max(n_actions, bound.program.actions.size());
        n_fetches = std::max(n_fetches, static_cast<std::size_t>(bound.program.n_fetches));
    }
    times_.reserve(n_actions);
    submitted_.reserve(n_actions);
    fetches_.resize(n_fetches);
    staged_.resize(parts_.device != nullptr ? parts_.device->staging().size() : 0);
    return {};
}

void Executor::bind(Bound& bound) {
    const std::span<const backend::WeightView> tensors = parts_.model.weights().views();
    const auto bind_slots = [&](std::span<const backend::SlotView> memory, std::size_t side) {
        for (const StepSlot& slot : bound.program.slots) {
            backend::SlotView view = memory[static_cast<std::size_t>(slot.memory)];
            view.data += view.data == nullptr ? 0 : slot.first_column;
            bound.slots[side].push_back(view);
        }
    };
    const auto bind_experts = [&](std::size_t side) {
        for (const ExpertShare& share : bound.program.sides[side].expert_shares) {
            auto& slices = bound.slices[side].emplace_back(
                static_cast<std::size_t>(share.n_experts), std::int32_t{-1});
            std::iota(slices.begin() + share.parts.first, slices.begin() + share.parts.end(), 0);
        }
        for (const auto& slices : bound.slices[side]) {
            bound.experts[side].push_back({.slice_of = slices});
        }
    };
    for (const SideUnit& unit : bound.program.sides[0].units()) {
        bound.weights[0].push_back(
            view_in_place(tensors[static_cast<std::size_t>(unit.slice.unit)], unit.slice));
    }
    bind_slots(memory_, 0);
    bind_experts(0);
    bound.contexts[0] = {.weights = bound.weights[0],
                         .slots = bound.slots[0],
                         .kv = parts_.cache.layers(),
                         .rope = rope_views_,
                         .experts = bound.experts[0]};
    if (parts_.device == nullptr) {
        return;
    }
    for (const SideUnit& unit : bound.program.sides[1].units()) {
        bound.weights[1].push_back(parts_.device->weights().view(unit.slice));
    }
    for (std::size_t i = 0; i < bound.program.tiles.size(); ++i) {
        const StepTile& tile = bound.program.tiles[i];
        for (std::size_t n = 0; n < tile.units.size(); ++n) {
            const auto unit = static_cast<std::size_t>(tile.units[n]);
            const WeightSlice& slice = bound.program.sides[1].units()[unit].slice;
            bound.weights[1][unit] = packed_view(tensors[static_cast<std::size_t>(slice.unit)],
                                                 slice,
                                                 parts_.device->ring().tile(i) + tile.offsets[n]);
        }
    }
    bind_slots(parts_.device->slots(), 1);
    bind_experts(1);
    bound.contexts[1] = {.weights = bound.weights[1],
                         .slots = bound.slots[1],
                         .kv = parts_.cache.layers(),
                         .rope = parts_.device->rope(),
                         .experts = bound.experts[1]};
}

Executor::~Executor() {
    for (const backend::Chunk& chunk : chunks_) {
        parts_.cpu.free_chunk(chunk);
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

Status Executor::begin(const backend::StepInput& input) {
    BALLAST_CHECK(input.n_rows() <= limits_.rows);
    BALLAST_CHECK(static_cast<int>(input.output_rows.size()) <= limits_.outputs);
    kind_ = input.n_decode_rows == input.n_rows() ? StepKind::kDecode : StepKind::kPrefill;
    for (backend::StepContext& context : bound().contexts) {
        context.input = input;
    }
    fill_rope(input);
    angles_sent_ = false;
    times_.clear();
    std::fill(fetches_.begin(), fetches_.end(), std::nullopt);
    waited_ = Nanoseconds(0);
    waited_before_run_ = Nanoseconds(0);
    if (bound().program.tiles.empty()) {
        return {};
    }
    return told_of_loss(
        parts_.device->ring().begin(bound().program, parts_.model.weights().views()));
}

int Executor::rows_of(backend::RowDomain rows) const {
    const backend::StepInput& input = bounds_[static_cast<std::size_t>(kind_)].contexts[0].input;
    return rows == backend::RowDomain::kAll ? input.n_rows()
                                            : static_cast<int>(input.output_rows.size());
}

Status Executor::run_segments(int first, int last) {
    Status status = run_actions(bound().program.segments(first, last));
    if (status) {
        status = join_device();
    }
    if (!status) {
        abandon_device();
    }
    return told_of_loss(std::move(status));
}

Status Executor::told_of_loss(Status status) const {
    if (!status && status.error().code == ErrorCode::kDeviceLost) {
        return fail(ErrorCode::kDeviceLost,
                    fmt::format("{} was lost, and with it the keys and values it held; start the "
                                "server again, or without it (--device auto)",
                                parts_.device->backend().name()));
    }
    return status;
}

Status Executor::run_actions(std::span<const StepAction> actions) {
    while (!actions.empty()) {
        const StepAction& action = actions.front();
        std::size_t n = 1;
        switch (action.kind) {
            case StepAction::Kind::kSend:
                BALLAST_TRY_STATUS(send(action));
                break;
            case StepAction::Kind::kFetch:
                BALLAST_TRY_STATUS(fetch(action));
                break;
            case StepAction::Kind::kAwait:
                BALLAST_TRY_STATUS(await(action));
                break;
            case StepAction::Kind::kCpu:
                n = n_together(actions);
                BALLAST_TRY_STATUS(run_on_cpu(actions.first(n)));
                break;
            case StepAction::Kind::kDevice:
                n = n_together(actions);
                BALLAST_TRY_STATUS(run_on_device(actions.first(n)));
                break;
        }
        actions = actions.subspan(n);
    }
    return {};
}

std::size_t Executor::n_together(std::span<const StepAction> actions) const {
    const StepAction& first = actions.front();
    std::size_t n = 1;
    while (n < actions.size()) {
        const StepAction& last = actions[n - 1];
        const StepAction& next = actions[n];
        // Each group on the CPU has a time of its own; on the device whole groups go together, and
        // what ends a group goes with what follows it.
        const bool more_of_device =
            first.kind == StepAction::Kind::kDevice && next.tile < 0 &&
            (next.group == last.group || (first.tile < 0 && next.share == last.share));
        if (next.kind != first.kind || next.rows != first.rows ||
            !(more_of_device || (last.finishes && next.tile < 0))) {
            break;
        }
        ++n;
    }
    return n;
}

OpTime Executor::time_of(std::span<const StepAction> runs) const {
    const auto begin =
        std::find_if(runs.begin(), runs.end(), [](const StepAction& run) { return !run.finishes; });
    const StepAction& first = begin == runs.end() ? runs.front() : *begin;
    return {.first_group = first.group,
            .n_groups = runs.back().group - first.group + 1,
            .share = begin == runs.end() ? 0.0 : first.share,
            .rows = rows_of(first.rows)};
}

Status Executor::run_on_cpu(std::span<const StepAction> runs) {
    if (rows_of(runs.front().rows) == 0) {
        return {};  // nobody wants logits
    }
    const std::size_t first = runs.front().begin;
    const auto ops =
        std::span(bound().program.sides[0].records).subspan(first, runs.back().end - first);
    const Nanoseconds begin = parts_.clock.now();
    BALLAST_TRY(const backend::Event event, parts_.cpu.submit(ops, bound().contexts[0]));
    BALLAST_TRY_STATUS(parts_.cpu.wait(event));
    OpTime& time = times_.emplace_back(time_of(runs));
    time.busy = parts_.clock.now() - begin;
    time.waited = std::exchange(waited_before_run_, Nanoseconds(0));
    return {};
}

template <class Put>
Status Executor::put(const Put& put) {
    return backend::put_or_wait(last_, put, [this](backend::Event event) { return wait(event); });
}

Status Executor::run_on_device(std::span<const StepAction> runs) {
    if (rows_of(runs.front().rows) == 0) {
        return {};
    }
    backend::Backend& device = parts_.device->backend();
    BALLAST_TRY_STATUS(send_angles());
    const int tile = runs.front().tile;
    if (tile >= 0) {
        parts_.device->ring().order_after(tile);
    }
    const std::size_t first = runs.front().begin;
    const auto ops =
        std::span(bound().program.sides[1].records).subspan(first, runs.back().end - first);
    BALLAST_TRY_STATUS(put([&] { return device.submit(ops, bound().contexts[1]); }));
    OpTime& time = times_.emplace_back(time_of(runs));
    time.device = DeviceId::kDevice;
    submitted_.push_back({times_.size() - 1, *last_});
    return tile >= 0 ? parts_.device->ring().free(tile, *last_) : Status();
}

Status Executor::send_angles() {
    if (angles_sent_) {
        return {};
    }
    backend::Backend& device = parts_.device->backend();
    const auto rows = static_cast<std::size_t>(rows_of(backend::RowDomain::kAll));
    for (std::size_t i = 0; i < rope_views_.size(); ++i) {
        const backend::RopeView& from = rope_views_[i];
        const DeviceSide::Angles& to = parts_.device->angles()[i];
        const backend::Strips strips{.row_bytes = rows * from.half * sizeof(float)};
        if (!bound().program.device_tables[i] || strips.row_bytes == 0) {
            continue;
        }
        for (const auto& [target, source] : {std::pair(to.cos, from.cos), {to.sin, from.sin}}) {
            BALLAST_TRY_STATUS(put([&, target = target, source = source] {
                return device.copy_strips_in(
                    backend::Queue::kCompute, bytes_at(target), bytes_at(source), strips);
            }));
        }
    }
    angles_sent_ = true;
    return {};
}

Status Executor::send(const StepAction& action) {
    const auto rows = static_cast<std::size_t>(rows_of(action.rows));
    if (rows == 0) {
        return {};
    }
    // The CPU goes on to write the slot; what is sent is a copy.
    const std::size_t buffer = next_staging_++ % staged_.size();
    if (staged_[buffer]) {
        BALLAST_TRY_STATUS(wait(*staged_[buffer]));
    }
    const backend::SlotView& from = bound().slots[0][static_cast<std::size_t>(action.from)];
    const backend::SlotView& to = bound().slots[1][static_cast<std::size_t>(action.to)];
    const std::size_t n_bytes = rows * from.width * sizeof(float);
    std::byte* const staging = parts_.device->staging()[buffer].data;
    std::memcpy(staging, from.data, n_bytes);
    BALLAST_TRY_STATUS(put([&] {
        return parts_.device->backend().copy_strips_in(
            backend::Queue::kCompute, bytes_at(to.data), staging, {.row_bytes = n_bytes});
    }));
    staged_[buffer] = last_;
    return {};
}

Status Executor::fetch(const StepAction& action) {
    const auto rows = static_cast<std::size_t>(rows_of(action.rows));
    if (rows == 0) {
        return {};
    }
    const backend::SlotView& from = bound().slots[1][static_cast<std::size_t>(action.from)];
    const backend::SlotView& to = bound().slots[0][static_cast<std::size_t>(action.to)];
    const backend::Strips strips{
        .row_bytes = static_cast<std::size_t>(action.n_columns) * sizeof(float),
        .n_rows = rows,
        .device_stride = from.width * sizeof(float),
        .host_stride = to.width * sizeof(float)};
    BALLAST_TRY_STATUS(put([&] {
        return parts_.device->backend().copy_strips_out(
            backend::Queue::kCompute, bytes_at(to.data), bytes_at(from.data), strips);
    }));
    fetches_[static_cast<std::size_t>(action.fetch)] = last_;
    return {};
}

Status Executor::wait(backend::Event event) {
    const Nanoseconds begin = parts_.clock.now();
    Status status = parts_.device->backend().wait(event);
    const Nanoseconds waited = parts_.clock.now() - begin;
    waited_ += waited;
    waited_before_run_ += waited;
    return status;
}

Status Executor::await(const StepAction& action) {
    const auto& event = fetches_[static_cast<std::size_t>(action.fetch)];
    return event ? wait(*event) : Status();
}

Status Executor::join_device() {
    if (!last_) {
        return {};
    }
    BALLAST_TRY_STATUS(wait(*last_));
    last_.reset();
    for (const Submitted& one : submitted_) {
        times_[one.time].busy = parts_.device->backend().busy_time(one.event);
    }
    submitted_.clear();
    std::fill(staged_.begin(), staged_.end(), std::nullopt);
    return {};
}

void Executor::abandon_device() {
    if (parts_.device == nullptr) {
        return;
    }
    for (const auto& event : {last_, parts_.device->ring().last_copy()}) {
        if (event) {
            // What it says is known already: the step has failed.
            static_cast<void>(parts_.device->backend().wait(*event));
        }
    }
    last_.reset();
    submitted_.clear();
    std::fill(staged_.begin(), staged_.end(), std::nullopt);
}

Status Executor::run(const backend::StepInput& input) {
    BALLAST_TRY_STATUS(begin(input));
    return run_segments(0, parts_.model.ops().n_segments());
}

std::span<float> Executor::logits(int output) {
    const backend::SlotView& slot = memory_[static_cast<std::size_t>(parts_.model.logits())];
    return {slot.row(static_cast<std::size_t>(output)), slot.width};
}

}  // namespace ballast::runtime
