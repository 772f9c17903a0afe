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
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/model.h"
#include "engine/runtime/device_side.h"
#include "engine/runtime/lane_log.h"
#include "engine/runtime/step_binding.h"
#include "engine/runtime/step_memory.h"
#include "engine/runtime/step_program.h"

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

    BoundStep& bound() { return binding_.step(kind_); }
    int rows_of(backend::RowDomain rows) const;
    Status run_actions(std::span<const StepAction> actions);
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
    /// Waits for all that the compute queue has, and notes the times.
    Status join_device();
    void abandon_device();
    Status wait(backend::Event event);
    /// A lost device is named, with what to do.
    Status told_of_loss(Status status) const;

    Parts parts_;
    ExecutorLimits limits_;
    StepBinding binding_;
    StepKind kind_ = StepKind::kDecode;
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

}  // namespace ballast::runtime
