// SPDX-License-Identifier: MIT
// Runs a model's ops for one batch after another: owns the step's memory on the CPU, binds ops to
// memory, and follows the residency: each group on its device, activations across where they must.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/model.h"
#include "engine/runtime/device_side.h"
#include "engine/runtime/step_memory.h"
#include "engine/runtime/step_plan.h"

namespace ballast::runtime {

/// What one run of groups on one device took in the last step.
struct OpTime {
    int first_group = -1;  // in the catalog's order; −1: the embedding
    int n_groups = 1;
    DeviceId device = DeviceId::kCpu;
    int rows = 0;
    Nanoseconds busy{0};  // of the device, or of the CPU
    /// From the start of the run until the CPU could go on, less the work itself: what crossing to
    /// the device and back cost.
    Nanoseconds hops{0};
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
    };
    /// kOutOfMemory, or kUnsupported naming a tensor the CPU has no kernels for.
    static Result<std::unique_ptr<Executor>> create(const Parts& parts,
                                                    const ExecutorLimits& limits);
    ~Executor();
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    /// One forward pass. The input must be within the limits. An error leaves the executor usable,
    /// but for kDeviceLost.
    Status run(const backend::StepInput& input);

    /// A pass in parts: begin() binds the batch, run_segments() runs [first, last) of the model's
    /// segments (embedding, layers, head), so that other work can go between two layers. No device
    /// is at work when it returns, whatever it returns.
    void begin(const backend::StepInput& input);
    Status run_segments(int first, int last);

    /// Logits of the i-th output row of the last pass: [vocabulary]; may be changed by the caller.
    std::span<float> logits(int output);
    /// Of the last pass, in the order in which they ran.
    std::span<const OpTime> op_times() const { return times_; }

  private:
    /// Cosines and sines of one rope table for the rows of a step.
    struct RopeMemory {
        std::span<const double> rates;
        AlignedBuffer<float> cos;  // [rows][rates]
        AlignedBuffer<float> sin;
    };
    explicit Executor(const Parts& parts);
    Status allocate(const ExecutorLimits& limits);
    void fill_rope(const backend::StepInput& input);

    int rows_of(backend::RowDomain rows) const;
    Status run_pieces(std::span<const StepPiece> pieces);
    Status run_on_cpu(const StepPiece& piece);
    /// All of these in one submission.
    Status run_on_device(std::span<const StepPiece> pieces);
    Status send_angles();
    Status send(backend::SlotId slot);
    /// Brings slots to the CPU and waits for them, and so for the device.
    Status fetch(std::span<const backend::SlotId> slots);
    /// Waits for the submission that is at work, if there is one, and notes its time.
    Status join_device();
    void abandon_device();
    Status copy_in(std::byte* device, std::span<const std::byte> host);

    Parts parts_;
    ExecutorLimits limits_;
    StepPlan plan_;
    std::vector<backend::Chunk> chunks_;  // one a slot
    std::vector<backend::SlotView> slots_;
    std::vector<RopeMemory> rope_;
    std::vector<backend::RopeView> rope_views_;
    std::array<backend::StepContext, kDevices> contexts_;
    std::vector<OpTime> times_;
    bool angles_sent_ = false;
    std::optional<backend::Event> at_work_;    // on the device; its time is the last of times_
    std::optional<backend::Event> last_copy_;  // either way; none waited for with at_work_
    Nanoseconds device_begin_{0};
};

}  // namespace ballast::runtime
