// SPDX-License-Identifier: MIT
// Memory for the slots, angles for the rows, and the submission of ops.
#include "engine/runtime/executor.h"

#include <cmath>

#include <fmt/format.h>

#include "engine/backend/op_access.h"
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

std::span<const std::byte> row_bytes(const float* data, std::size_t rows, std::size_t width) {
    return std::as_bytes(std::span(data, rows * width));
}

std::byte* bytes_at(float* memory) {
    return static_cast<std::byte*>(static_cast<void*>(memory));
}

}  // namespace

Executor::Executor(const Parts& parts) : parts_(parts) {}

Result<std::unique_ptr<Executor>> Executor::create(const Parts& parts,
                                                   const ExecutorLimits& limits) {
    BALLAST_TRY_STATUS(check_supported(parts.model, parts.cpu));
    std::unique_ptr<Executor> executor(new Executor(parts));
    const std::vector<DeviceId> devices =
        parts.device != nullptr
            ? parts.device->residency().devices()
            : std::vector<DeviceId>(parts.catalog.groups.size(), DeviceId::kCpu);
    BALLAST_TRY(executor->plan_,
                make_step_plan(parts.model.ops(), parts.catalog, devices, parts.model.logits()));
    BALLAST_TRY_STATUS(executor->allocate(limits));
    return executor;
}

Status Executor::allocate(const ExecutorLimits& limits) {
    limits_ = limits;
    const model::OpsList& ops = parts_.model.ops();
    BALLAST_TRY_STATUS(parts_.cpu.reserve(step_limits(parts_.model, limits)));
    for (const model::OpsList::Slot& slot : ops.slots()) {
        BALLAST_TRY(backend::Chunk chunk,
                    parts_.cpu.allocate_chunk(slot_floats(slot, limits) * sizeof(float)));
        chunks_.push_back(chunk);
        // A chunk is aligned to a page, which suits float.
        slots_.push_back({.data = static_cast<float*>(static_cast<void*>(chunk.data)),
                          .width = static_cast<std::size_t>(slot.width)});
    }
    for (const model::RopeTable& table : ops.rope_tables()) {
        const std::size_t size = static_cast<std::size_t>(limits.rows) * table.rates.size();
        RopeMemory& memory = rope_.emplace_back();
        memory.rates = table.rates;
        memory.cos = AlignedBuffer<float>(size);
        memory.sin = AlignedBuffer<float>(size);
        rope_views_.push_back(
            {.cos = memory.cos.data(), .sin = memory.sin.data(), .half = table.rates.size()});
    }
    times_.reserve(plan_.pieces.size());
    contexts_[0] = {.weights = parts_.model.weights().views(),
                    .slots = slots_,
                    .kv = parts_.cache.layers(),
                    .rope = rope_views_};
    if (parts_.device != nullptr) {
        contexts_[1] = {.weights = parts_.device->weights(),
                        .slots = parts_.device->slots(),
                        .kv = parts_.cache.layers(),
                        .rope = parts_.device->rope()};
    }
    return {};
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

void Executor::begin(const backend::StepInput& input) {
    BALLAST_CHECK(input.n_rows() <= limits_.rows);
    BALLAST_CHECK(static_cast<int>(input.output_rows.size()) <= limits_.outputs);
    for (backend::StepContext& context : contexts_) {
        context.input = input;
    }
    fill_rope(input);
    angles_sent_ = false;
    times_.clear();
}

int Executor::rows_of(backend::RowDomain rows) const {
    const backend::StepInput& input = contexts_[0].input;
    return rows == backend::RowDomain::kAll ? input.n_rows()
                                            : static_cast<int>(input.output_rows.size());
}

Status Executor::run_segments(int first, int last) {
    Status status = run_pieces(plan_.segments(first, last));
    if (status && last == parts_.model.ops().n_segments() && plan_.logits_on_device) {
        const backend::SlotId logits = parts_.model.logits();
        status = fetch({&logits, 1});
    }
    if (status) {
        status = join_device();
    }
    if (status) {
        return {};
    }
    abandon_device();
    if (status.error().code == ErrorCode::kDeviceLost) {
        return fail(ErrorCode::kDeviceLost,
                    fmt::format("{} was lost, and with it the keys and values it held; start the "
                                "server again, or without it (--device auto)",
                                parts_.device->backend().name()));
    }
    return status;
}

Status Executor::run_pieces(std::span<const StepPiece> pieces) {
    while (!pieces.empty()) {
        const StepPiece& piece = pieces.front();
        std::size_t n = 1;
        if (rows_of(piece.rows) == 0) {
            // Nobody wants logits.
        } else if (piece.device == DeviceId::kCpu) {
            BALLAST_TRY_STATUS(fetch(piece.arrivals));
            BALLAST_TRY_STATUS(run_on_cpu(piece));
        } else {
            while (n < pieces.size() && pieces[n].device == piece.device &&
                   pieces[n].arrivals.empty() && rows_of(pieces[n].rows) > 0) {
                ++n;
            }
            BALLAST_TRY_STATUS(run_on_device(pieces.first(n)));
        }
        pieces = pieces.subspan(n);
    }
    return {};
}

Status Executor::run_on_cpu(const StepPiece& piece) {
    const auto ops = parts_.model.ops().records().subspan(piece.begin, piece.end - piece.begin);
    const Nanoseconds begin = parts_.clock.now();
    BALLAST_TRY(const backend::Event event, parts_.cpu.submit(ops, contexts_[0]));
    BALLAST_TRY_STATUS(parts_.cpu.wait(event));
    times_.push_back({.first_group = piece.group,
                      .rows = rows_of(piece.rows),
                      .busy = parts_.clock.now() - begin});
    return {};
}

Status Executor::run_on_device(std::span<const StepPiece> pieces) {
    backend::Backend& device = parts_.device->backend();
    BALLAST_TRY_STATUS(join_device());
    device_begin_ = parts_.clock.now();
    BALLAST_TRY_STATUS(send_angles());
    for (const backend::SlotId slot : pieces.front().arrivals) {
        BALLAST_TRY_STATUS(send(slot));
    }
    if (last_copy_) {
        device.order_after(backend::Queue::kCompute, *last_copy_);
    }
    const std::size_t begin = pieces.front().begin;
    const auto ops = parts_.model.ops().records().subspan(begin, pieces.back().end - begin);
    BALLAST_TRY(at_work_, device.submit(ops, contexts_[1]));
    times_.push_back({.first_group = pieces.front().group,
                      .n_groups = static_cast<int>(pieces.size()),
                      .device = DeviceId::kDevice,
                      .rows = rows_of(pieces.front().rows)});
    return {};
}

Status Executor::copy_in(std::byte* to, std::span<const std::byte> from) {
    if (!from.empty()) {
        BALLAST_TRY(last_copy_, parts_.device->backend().copy_in(to, from));
    }
    return {};
}

Status Executor::send_angles() {
    if (angles_sent_) {
        return {};
    }
    const auto rows = static_cast<std::size_t>(contexts_[0].input.n_rows());
    for (std::size_t i = 0; i < rope_views_.size(); ++i) {
        if (plan_.device_tables[i]) {
            const backend::RopeView& from = rope_views_[i];
            const DeviceSide::Angles& to = parts_.device->angles()[i];
            BALLAST_TRY_STATUS(copy_in(bytes_at(to.cos), row_bytes(from.cos, rows, from.half)));
            BALLAST_TRY_STATUS(copy_in(bytes_at(to.sin), row_bytes(from.sin, rows, from.half)));
        }
    }
    angles_sent_ = true;
    return {};
}

Status Executor::send(backend::SlotId slot) {
    const auto index = static_cast<std::size_t>(slot);
    const auto rows = static_cast<std::size_t>(rows_of(parts_.model.ops().slots()[index].rows));
    return copy_in(bytes_at(parts_.device->slots()[index].data),
                   row_bytes(slots_[index].data, rows, slots_[index].width));
}

Status Executor::fetch(std::span<const backend::SlotId> slots) {
    if (slots.empty()) {
        return {};
    }
    backend::Backend& device = parts_.device->backend();
    if (at_work_) {
        device.order_after(backend::Queue::kCopy, *at_work_);
    }
    for (const backend::SlotId slot : slots) {
        const auto index = static_cast<std::size_t>(slot);
        const auto rows = static_cast<std::size_t>(rows_of(parts_.model.ops().slots()[index].rows));
        const std::size_t width = slots_[index].width;
        if (rows > 0) {
            BALLAST_TRY(
                last_copy_,
                device.copy_out(std::as_writable_bytes(std::span(slots_[index].data, rows * width)),
                                bytes_at(parts_.device->slots()[index].data)));
        }
    }
    if (last_copy_) {
        BALLAST_TRY_STATUS(device.wait(*last_copy_));
    }
    return join_device();
}

Status Executor::join_device() {
    if (!at_work_) {
        return {};
    }
    backend::Backend& device = parts_.device->backend();
    Status status = device.wait(*at_work_);
    const Nanoseconds wall = parts_.clock.now() - device_begin_;
    OpTime& time = times_.back();
    const Nanoseconds busy = device.busy_time(*at_work_);
    time.busy = busy.count() > 0 ? busy : wall;
    time.hops = wall - time.busy;
    at_work_.reset();
    last_copy_.reset();
    return status;
}

void Executor::abandon_device() {
    if (parts_.device == nullptr) {
        return;
    }
    backend::Backend& device = parts_.device->backend();
    for (const auto& event : {at_work_, last_copy_}) {
        if (event) {
            // What it says is known already: the step has failed.
            static_cast<void>(device.wait(*event));
        }
    }
    at_work_.reset();
    last_copy_.reset();
}

Status Executor::run(const backend::StepInput& input) {
    begin(input);
    return run_segments(0, parts_.model.ops().n_segments());
}

std::span<float> Executor::logits(int output) {
    const backend::SlotView& slot = slots_[static_cast<std::size_t>(parts_.model.logits())];
    return {slot.row(static_cast<std::size_t>(output)), slot.width};
}

}  // namespace ballast::runtime
