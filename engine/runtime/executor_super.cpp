// SPDX-License-Identifier: MIT
// The part of Executor that runs super-chunks: one stage of one micro-batch at a time, each with
// what it needs of the stages before, and nothing of it left on the device when it returns.
#include <utility>

#include "engine/base/check.h"
#include "engine/base/log.h"
#include "engine/runtime/executor.h"

namespace ballast::runtime {

const SuperBinding* Executor::super() {
    if (parts_.device == nullptr || std::exchange(super_asked_, true)) {
        return super_.get();
    }
    auto super = SuperBinding::create(
        {.model = parts_.model, .cpu = parts_.cpu, .device = *parts_.device, .steps = binding_},
        limits_.super_rows);
    if (super) {
        super_ = std::move(*super);
    } else {
        log_warning("prompts are not run in super-chunks: {}", super.error().message);
    }
    return super_.get();
}

Status Executor::begin_super(bool outputs) {
    BALLAST_CHECK(super_ != nullptr && !in_super_);
    const SuperStages& stages = super_->stages();
    // The head's tiles are of use to rows with logits alone.
    const std::size_t n_tiles =
        outputs ? stages.stages.back().end_tile : stages.stages.back().first_tile;
    in_super_ = true;
    head_begun_ = 0;
    Status status = settle_experts();
    if (status) {
        status = super_->ring().begin(binding_.step(StepKind::kPrefill).program,
                                      StepKind::kPrefill,
                                      parts_.model.weights().views(),
                                      n_tiles);
    }
    return told_of_loss(status ? parts_.device->experts().order_copies() : std::move(status));
}

Status Executor::settle_experts() {
    ExpertPlaces& experts = parts_.device->experts();
    std::vector<int> filled;
    for (const StepKind kind : kStepKinds) {
        const std::vector<int>& more = binding_.step(kind).filled;
        filled.insert(filled.end(), more.begin(), more.end());
    }
    BALLAST_TRY_STATUS(experts.follow(last_step_, filled));
    for (const StepKind kind : kStepKinds) {
        binding_.follow(kind, experts);
    }
    return {};
}

Status Executor::run_super(const backend::StepInput& input, const SuperPart& part) {
    BALLAST_CHECK(in_super_ && input.n_rows() <= limits_.rows);
    const SuperStage& stage = super_->stages().stages[part.stage];
    BoundStep& step = super_->at(input, part.first_row);
    begin_run(StepKind::kPrefill, step, &super_->ring());
    if (part.stage == 0) {
        super_->fill_rope(input, part.first_row);
    }
    angles_sent_ = !stage.device_angles;
    frees_tiles_ = part.is_last;
    Status status;
    if (stage.outputs && stage.end_tile - stage.first_tile > super_->ring().n_places()) {
        // A head that does not fit into the ring crosses for each micro-batch that wants it.
        frees_tiles_ = true;
        status = head_begun_++ > 0 ? super_->ring().restart(stage.first_tile) : Status();
    }
    if (status) {
        status = bring_carried(stage, part.first_row);
    }
    if (status) {
        status = run_actions(
            std::span(step.program.actions).subspan(stage.begin, stage.end - stage.begin));
    }
    if (status) {
        status = keep_carried(stage, part.first_row);
    }
    if (status) {
        status = join_device();
    }
    if (!status) {
        abandon_device();
        end_super();
    }
    return told_of_loss(std::move(status));
}

Status Executor::leave_stage(std::size_t stage) {
    BALLAST_CHECK(in_super_);
    return told_of_loss(super_->ring().free_before(super_->stages().stages[stage].end_tile));
}

void Executor::end_super() {
    in_super_ = false;
}

Status Executor::bring_carried(const SuperStage& stage, int first_row) {
    const auto rows = static_cast<std::size_t>(rows_of(backend::RowDomain::kAll));
    for (const backend::SlotId memory : stage.sent) {
        const backend::SlotView& to = parts_.device->slots()[static_cast<std::size_t>(memory)];
        const std::byte* const from = bytes_at(super_->carried_on_host(memory, first_row));
        const backend::Strips strips{.row_bytes = rows * to.width * sizeof(float)};
        BALLAST_TRY_STATUS(put(crossing(TransferDirection::kIn, strips), [&] {
            return parts_.device->backend().copy_strips_in(
                backend::Queue::kCompute, bytes_at(to.data), from, strips);
        }));
    }
    return {};
}

Status Executor::keep_carried(const SuperStage& stage, int first_row) {
    const auto rows = static_cast<std::size_t>(rows_of(backend::RowDomain::kAll));
    for (const backend::SlotId memory : stage.fetched) {
        const backend::SlotView& from = parts_.device->slots()[static_cast<std::size_t>(memory)];
        std::byte* const to = bytes_at(super_->carried_on_host(memory, first_row));
        const backend::Strips strips{.row_bytes = rows * from.width * sizeof(float)};
        BALLAST_TRY_STATUS(put(crossing(TransferDirection::kOut, strips), [&] {
            return parts_.device->backend().copy_strips_out(
                backend::Queue::kCompute, to, bytes_at(from.data), strips);
        }));
    }
    return {};
}

}  // namespace ballast::runtime
