// SPDX-License-Identifier: MIT
// Runs a model's ops for one batch after another and follows the residency: each group on its
// device, activations across where they must.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/put_or_wait.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/model.h"
#include "engine/runtime/device_side.h"
#include "engine/runtime/lane_log.h"
#include "engine/runtime/step_binding.h"
#include "engine/runtime/step_memory.h"
#include "engine/runtime/step_program.h"
#include "engine/runtime/super_binding.h"

namespace ballast::runtime {

/// What one run of groups on one device took in the last step.
struct OpTime {
    int first_group = -1;  // in the catalog's order; −1: the embedding
    int n_groups = 1;
    DeviceId device = DeviceId::kCpu;
    double share = 1.0;  // of the groups' parts
    int rows = 0;
    Nanoseconds busy{0};    // of the device, or of the CPU
    Nanoseconds waited{0};  // by the CPU for the device, before it began
};

/// Engine thread. What it is made of outlives it.
class Executor {
  public:
    struct Parts {
        const model::Model& model;
        const scheduler::TensorCatalog& catalog;
        backend::Backend& cpu;
        DeviceSide* device;  // settled; null: there is none
        cache::KvCache& cache;
        ExpertUse& expert_use;  // is told what routers choose
        const Clock& clock;
        LaneLog& log;
    };
    /// kOutOfMemory, or kUnsupported naming a tensor the CPU has no kernels for.
    static Result<std::unique_ptr<Executor>> create(const Parts& parts,
                                                    const ExecutorLimits& limits);
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    /// Between two steps, with a device: follows what it is now (DeviceSide::settle()).
    void follow_device();

    /// One forward pass. The input must be within the limits. An error leaves the executor usable,
    /// but for kDeviceLost.
    Status run(const backend::StepInput& input);

    /// A pass in parts: begin() binds the batch, run_segments() runs [first, last) of the model's
    /// segments (embedding, layers, head), so that other work can go between two layers. The device
    /// computes nothing when it returns, whatever it returns; weights may still cross.
    Status begin(const backend::StepInput& input);
    Status run_segments(int first, int last);

    // A super-chunk (super_chunk.h): rows of prompts that go through the model together, stage by
    // stage (super_stages.h), in micro-batches that are each within the limits of a step. What
    // streams crosses once for all of them. Whole steps of generated tokens may be run in between,
    // with begin() and run_segments() or run().

    /// Null where nothing streams in prompts, or the limits ask for none.
    const SuperBinding* super();
    struct SuperPart {
        std::size_t stage = 0;
        int first_row = 0;  // of the micro-batch, among all rows
        /// No other micro-batch runs this stage after this one.
        bool is_last = false;
    };
    /// Begins; `outputs`: some row's logits are wanted.
    Status begin_super(bool outputs);
    /// One stage of one micro-batch, whose earlier stages have been run. The head's is for those
    /// with logits.
    Status run_super(const backend::StepInput& input, const SuperPart& part);
    /// All micro-batches have run this stage.
    Status leave_stage(std::size_t stage);
    /// Ends, done or not.
    void end_super();

    /// Logits of the i-th output row of the last pass: [vocabulary]; may be changed by the caller.
    std::span<float> logits(int output);
    /// Of the last pass, in the order in which they ran.
    std::span<const OpTime> op_times() const { return times_; }
    /// How long the CPU waited in it for the device, in all.
    Nanoseconds waited() const { return waited_; }

  private:
    /// A submission whose time is not known yet.
    struct Submitted {
        std::size_t time = 0;  // of times_
        backend::Event event = {};
    };

    explicit Executor(const Parts& parts);
    void make_room_for(const std::array<StepProgram, kStepKinds.size()>& programs);

    BoundStep& bound() { return *bound_; }
    const BoundStep& bound() const { return *bound_; }
    void begin_run(StepKind kind, BoundStep& step, WeightRing* ring);
    int rows_of(backend::RowDomain rows) const;
    /// Experts move between two steps, and the step's views follow them; weights begin to cross.
    Status begin_on_device();
    /// For all of a super-chunk, and the steps in between.
    Status settle_experts();
    Status run_actions(std::span<const StepAction> actions);
    /// Where the action brings a choice of experts, or makes it on the CPU.
    void count_choice(const StepAction& action);
    /// These are runs of one side that may be done at once.
    std::size_t n_together(std::span<const StepAction> actions) const;
    Status run_on_cpu(std::span<const StepAction> runs);
    Status run_on_device(std::span<const StepAction> runs);
    OpTime time_of(std::span<const StepAction> runs) const;
    Status send_angles();
    Status send(const StepAction& action);
    Status fetch(const StepAction& action);
    Status await(const StepAction& action);
    /// Puts on the device's compute queue, and waits for room if there is none. The log is told.
    template <class Put>
    Status put(const LaneSpan& span,
               const Put& put,
               std::optional<backend::Event> tile = std::nullopt);
    /// A copy of an activation, which is counted.
    LaneSpan crossing(TransferDirection direction, const backend::Strips& strips);
    Status bring_carried(const SuperStage& stage, int first_row);
    Status keep_carried(const SuperStage& stage, int first_row);
    /// Waits for all that the compute queue has, and notes the times.
    Status join_device();
    void abandon_device();
    Status wait(backend::Event event);
    /// A lost device is named, with what to do.
    Status told_of_loss(Status status) const;

    Parts parts_;
    ExecutorLimits limits_;
    StepBinding binding_;
    ExpertPlaces::LastStep last_step_;
    Nanoseconds step_began_{0};
    std::uint64_t streamed_before_ = 0;  // the step
    std::unique_ptr<SuperBinding> super_;
    bool super_asked_ = false;
    bool in_super_ = false;
    std::size_t head_begun_ = 0;  // micro-batches that have run the head of the super-chunk
    // Of the run at hand:
    StepKind kind_ = StepKind::kDecode;
    BoundStep* bound_ = nullptr;
    WeightRing* ring_ = nullptr;  // that its tiles are in; null: it has none
    bool frees_tiles_ = true;     // nobody else reads them after this run
    std::vector<OpTime> times_;
    std::vector<Submitted> submitted_;
    std::vector<std::optional<backend::Event>> fetches_;  // by number
    std::vector<std::optional<backend::Event>> staged_;   // last reader of each staging buffer
    std::size_t next_staging_ = 0;
    bool angles_sent_ = false;
    std::optional<backend::Event> last_;  // of the compute queue, not waited for
    Nanoseconds waited_{0};
    Nanoseconds waited_before_run_{0};
};

template <class Put>
Status Executor::put(const LaneSpan& span, const Put& put, std::optional<backend::Event> tile) {
    const PutBehind behind{.last = last_, .tile = tile, .put_at = parts_.clock.now()};
    BALLAST_TRY_STATUS(
        backend::put_or_wait(last_, put, [this](backend::Event event) { return wait(event); }));
    parts_.log.put(span, *last_, behind);
    return {};
}

}  // namespace ballast::runtime
