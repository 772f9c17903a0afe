// SPDX-License-Identifier: MIT
// Follows the actions of a program: the submission of ops and copies, and the waits for them.
#include "engine/runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "engine/backend/op_access.h"
#include "engine/base/check.h"
#include "engine/base/log.h"

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

}  // namespace

Executor::Executor(const Parts& parts)
    : parts_(parts),
      binding_(
          {.model = parts.model, .cpu = parts.cpu, .device = parts.device, .cache = parts.cache}) {}

Result<std::unique_ptr<Executor>> Executor::create(const Parts& parts,
                                                   const ExecutorLimits& limits) {
    BALLAST_TRY_STATUS(check_supported(parts.model, parts.cpu));
    std::array<StepProgram, kStepKinds.size()> programs;
    if (parts.device != nullptr) {
        programs = parts.device->programs();
    } else {
        BALLAST_TRY(const std::vector<GroupOps> groups,
                    group_ops(parts.model.ops(), parts.catalog));
        const std::vector<GroupDivision> alone(parts.catalog.groups.size());
        programs.fill(make_step_program(parts.model, groups, alone, scheduler::kTileBytesMax));
    }
    std::unique_ptr<Executor> executor(new Executor(parts));
    executor->limits_ = limits;
    executor->make_room_for(programs);
    BALLAST_TRY_STATUS(executor->binding_.bind(std::move(programs), limits));
    return executor;
}

void Executor::follow_device() {
    BALLAST_CHECK(!in_super_);
    // What the ring's places are may have changed with the share.
    super_.reset();
    super_asked_ = false;
    std::array<StepProgram, kStepKinds.size()> programs = parts_.device->programs();
    make_room_for(programs);
    binding_.bind_again(std::move(programs));
}

void Executor::make_room_for(const std::array<StepProgram, kStepKinds.size()>& programs) {
    std::size_t n_actions = 0;
    std::size_t n_fetches = 0;
    // Tiles', angles', and experts'.
    std::size_t n_copies = 4 * parts_.model.ops().rope_tables().size() + ExpertPlaces::kCopiesMax;
    for (const StepProgram& program : programs) {
        n_actions = std::max(n_actions, program.actions.size());
        n_fetches = std::max(n_fetches, static_cast<std::size_t>(program.n_fetches));
        for (const StepTile& tile : program.tiles) {
            const bool one_by_one = !parts_.device->experts().order(tile.group).empty();
            n_copies += tile.units.size() * static_cast<std::size_t>(one_by_one ? tile.parts.n : 1);
        }
    }
    times_.clear();
    times_.reserve(n_actions);
    parts_.log.reserve(n_actions + n_copies);
    submitted_.reserve(n_actions);
    fetches_.assign(n_fetches, std::nullopt);
    staged_.assign(parts_.device != nullptr ? parts_.device->staging().size() : 0, std::nullopt);
}

Status Executor::begin(const backend::StepInput& input) {
    BALLAST_CHECK(input.n_rows() <= limits_.rows);
    BALLAST_CHECK(static_cast<int>(input.output_rows.size()) <= limits_.outputs);
    const bool decodes = input.n_decode_rows == input.n_rows();
    BALLAST_CHECK(decodes || !in_super_);
    const StepKind kind = decodes ? StepKind::kDecode : StepKind::kPrefill;
    BoundStep* step = &binding_.step(kind);
    WeightRing* ring = parts_.device != nullptr ? &parts_.device->ring() : nullptr;
    if (in_super_ && super_->between() != nullptr) {
        step = super_->between();
        ring = &super_->between_ring();
    }
    begin_run(kind, *step, ring);
    for (backend::StepContext& context : bound().contexts) {
        context.input = input;
    }
    binding_.fill_rope(input);
    parts_.expert_use.publish(parts_.clock.now());
    return parts_.device != nullptr ? told_of_loss(begin_on_device()) : Status();
}

Status Executor::begin_on_device() {
    ExpertPlaces& experts = parts_.device->experts();
    // While a super-chunk runs they stay where they are for it.
    if (!in_super_) {
        BALLAST_TRY_STATUS(experts.follow(last_step_, bound().filled));
        binding_.follow(kind_, experts);
    }
    step_began_ = parts_.clock.now();
    streamed_before_ = parts_.log.stats().streamed_bytes();
    if (!bound().program.tiles.empty()) {
        BALLAST_TRY_STATUS(ring_->begin(bound().program, kind_, parts_.model.weights().views()));
    }
    return in_super_ ? Status() : experts.order_copies();
}

void Executor::begin_run(StepKind kind, BoundStep& step, WeightRing* ring) {
    kind_ = kind;
    bound_ = &step;
    ring_ = ring;
    frees_tiles_ = true;
    angles_sent_ = false;
    times_.clear();
    std::fill(fetches_.begin(), fetches_.end(), std::nullopt);
    waited_ = Nanoseconds(0);
    waited_before_run_ = Nanoseconds(0);
}

int Executor::rows_of(backend::RowDomain rows) const {
    const backend::StepInput& input = bound().contexts[0].input;
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
    if (parts_.device != nullptr) {
        last_step_ = {.duration = parts_.clock.now() - step_began_,
                      .streamed_bytes = parts_.log.stats().streamed_bytes() - streamed_before_};
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
    const Nanoseconds end = parts_.clock.now();
    time.busy = end - begin;
    parts_.log.ran({.lane = Lane::kCpu,
                    .first_group = time.first_group,
                    .n_groups = time.n_groups,
                    .share = time.share,
                    .begin = begin,
                    .end = end});
    time.waited = std::exchange(waited_before_run_, Nanoseconds(0));
    for (const StepAction& run : runs) {
        if (run.share == 1.0 && !run.finishes) {
            count_choice(run);  // the CPU's own
        }
    }
    return {};
}

void Executor::count_choice(const StepAction& action) {
    if (parts_.expert_use.counts(action.group)) {
        // Later layers' choices come to the same slot.
        parts_.expert_use.count(action.group,
                                bound().slots[0],
                                rows_of(action.rows),
                                parts_.device != nullptr ? &parts_.device->experts() : nullptr);
    }
}

LaneSpan Executor::crossing(TransferDirection direction, const backend::Strips& strips) {
    const std::size_t n_bytes = strips.total_bytes();
    parts_.log.stats().count(direction, TransferReason::kActivations, n_bytes);
    return {
        .lane = Lane::kDevice, .bytes = n_bytes, .to_device = direction == TransferDirection::kIn};
}

Status Executor::run_on_device(std::span<const StepAction> runs) {
    if (rows_of(runs.front().rows) == 0) {
        return {};
    }
    backend::Backend& device = parts_.device->backend();
    BALLAST_TRY_STATUS(send_angles());
    const int tile = runs.front().tile;
    std::optional<backend::Event> loaded;
    if (tile >= 0) {
        loaded = ring_->order_after(tile);
    }
    const std::size_t first = runs.front().begin;
    const auto ops =
        std::span(bound().program.sides[1].records).subspan(first, runs.back().end - first);
    OpTime time = time_of(runs);
    time.device = DeviceId::kDevice;
    const LaneSpan span{.lane = Lane::kDevice,
                        .first_group = time.first_group,
                        .n_groups = time.n_groups,
                        .share = time.share,
                        .tile = tile};
    const auto submit = [&] { return device.submit(ops, bound().contexts[1]); };
    BALLAST_TRY_STATUS(put(span, submit, loaded));
    times_.push_back(time);
    submitted_.push_back({times_.size() - 1, *last_});
    return tile >= 0 && frees_tiles_ ? ring_->free(tile, *last_) : Status();
}

Status Executor::send_angles() {
    if (angles_sent_) {
        return {};
    }
    backend::Backend& device = parts_.device->backend();
    const auto rows = static_cast<std::size_t>(rows_of(backend::RowDomain::kAll));
    const std::span<const backend::RopeView> rope = bound().contexts[0].rope;
    for (std::size_t i = 0; i < rope.size(); ++i) {
        const backend::RopeView& from = rope[i];
        const DeviceSide::Angles& to = parts_.device->angles()[i];
        const backend::Strips strips{.row_bytes = rows * from.half * sizeof(float)};
        if (!bound().program.device_tables[i] || strips.row_bytes == 0) {
            continue;
        }
        for (const auto& [target, source] : {std::pair(to.cos, from.cos), {to.sin, from.sin}}) {
            BALLAST_TRY_STATUS(put(
                crossing(TransferDirection::kIn, strips), [&, target = target, source = source] {
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
    const backend::Strips strips{.row_bytes = n_bytes};
    BALLAST_TRY_STATUS(put(crossing(TransferDirection::kIn, strips), [&] {
        return parts_.device->backend().copy_strips_in(
            backend::Queue::kCompute, bytes_at(to.data), staging, strips);
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
    BALLAST_TRY_STATUS(put(crossing(TransferDirection::kOut, strips), [&] {
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
    if (!event) {
        return {};
    }
    BALLAST_TRY_STATUS(wait(*event));
    count_choice(action);
    return {};
}

Status Executor::join_device() {
    if (last_) {
        BALLAST_TRY_STATUS(wait(*last_));
        last_.reset();
        for (const Submitted& one : submitted_) {
            times_[one.time].busy = parts_.device->backend().work_time(one.event).duration();
        }
        submitted_.clear();
        std::fill(staged_.begin(), staged_.end(), std::nullopt);
    }
    LaneLog::TimeOf time_of;
    if (parts_.device != nullptr) {
        time_of = [this](backend::Event event) {
            return parts_.device->backend().work_time(event);
        };
    }
    parts_.log.settle(time_of);
    return {};
}

void Executor::abandon_device() {
    if (parts_.device == nullptr) {
        return;
    }
    const auto copy = ring_ != nullptr ? ring_->last_copy() : std::nullopt;
    for (const auto& event : {last_, copy}) {
        if (event) {
            // What it says is known already: the step has failed.
            static_cast<void>(parts_.device->backend().wait(*event));
        }
    }
    last_.reset();
    submitted_.clear();
    parts_.log.forget();
    std::fill(staged_.begin(), staged_.end(), std::nullopt);
}

Status Executor::run(const backend::StepInput& input) {
    BALLAST_TRY_STATUS(begin(input));
    return run_segments(0, parts_.model.ops().n_segments());
}

std::span<float> Executor::logits(int output) {
    const backend::SlotView& slot = binding_.memory(parts_.model.logits());
    return {slot.row(static_cast<std::size_t>(output)), slot.width};
}

}  // namespace ballast::runtime
