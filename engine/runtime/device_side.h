// SPDX-License-Identifier: MIT
// All that a second device holds of a running model: copies of weights, the ring that others cross
// into, a step's activations and angles, and with them the facts of what is where. What the device
// cannot take stays on the CPU.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/result.h"
#include "engine/model/model.h"
#include "engine/runtime/device_weights.h"
#include "engine/runtime/expert_places.h"
#include "engine/runtime/residency.h"
#include "engine/runtime/step_memory.h"
#include "engine/runtime/step_program.h"
#include "engine/runtime/weight_ring.h"

namespace ballast::runtime {

/// Made before the KV cache, of which the device keeps the heads that attend here; then settled.
/// The model, the catalog, the backend and the log outlive it.
class DeviceSide {
  public:
    struct Setup {
        const model::Model* model = nullptr;
        const scheduler::TensorCatalog* catalog = nullptr;
        backend::Backend* backend = nullptr;
        LaneLog* log = nullptr;
        std::shared_ptr<const scheduler::Plan> plan = nullptr;
        std::uint64_t budget_bytes = 0;
        ExecutorLimits limits = {};
        std::size_t tile_bytes = scheduler::kTileBytesMax;
        /// Groups in the order in which they are to be given up, for the packing; empty: as the
        /// catalog has them.
        std::vector<std::size_t> eviction_order = {};
        /// Which experts move into the slots of divided groups; nothing: none.
        std::optional<scheduler::SlotRule> slot_rule = {};
        ExpertUse* expert_use = nullptr;  // is told of moves; outlives it
    };
    /// Some parts of a group that lie together, and are kept or given up together.
    struct Piece {
        std::size_t group = 0;
        PartRange parts = {};
    };
    /// Cosines and sines of one rope table.
    struct Angles {
        float* cos = nullptr;
        float* sin = nullptr;
    };
    /// kUnsupported if the plan divides a group as the executor cannot. What the device refuses is
    /// no error: the groups stay on the CPU and residency().degraded says why.
    static Result<std::unique_ptr<DeviceSide>> create(const Setup& setup);
    ~DeviceSide();
    DeviceSide(const DeviceSide&) = delete;
    DeviceSide& operator=(const DeviceSide&) = delete;

    /// How many of the layer's KV heads, from the first on, belong here.
    int attending_heads(int layer) const;
    /// The layer's keys and values went to the CPU after all, and so does its attention.
    void give_up_attention(int layer);
    /// All is where it is to be at first: gives back what no group needs, and counts the rest.
    void settle(std::int64_t kv_tokens);
    /// The same after a change, but for what is kept without being executed.
    void settle_parts(std::int64_t kv_tokens);

    // The share changes in parts, between two steps; what was submitted has ended by then. What is
    // kept and what is executed are told one after the other, then take_for_steps() and
    // settle_parts() make both fit.

    /// What is in memory, whether it is used or not: residents alone.
    scheduler::Placement kept() const;
    /// So many residents of a group at most, at the end of a piece.
    int whole_pieces(std::size_t group, int resident) const;
    /// Gives up all but these residents, in whole pieces, and computes without the rest. Their
    /// chunks go back.
    void keep(const scheduler::Placement& kept);
    /// The next step is divided so, as far as residents are here. kInternal, kUnsupported as for
    /// create().
    Status execute(const scheduler::Placement& executed);
    /// What of the groups is to come crosses beside the steps, in this order.
    void begin_upload(std::span<const Piece> pieces, std::uint64_t chunk_bytes_max);
    bool is_uploading() const { return !coming_.empty(); }
    std::size_t n_coming() const { return coming_.size() - n_come_; }
    /// Of chunks that no memory has been taken for yet.
    std::uint64_t untaken_bytes() const { return weights_.untaken_bytes(); }
    /// Takes note of what has arrived, and orders copies until so many bytes are on their way.
    /// Errors as DeviceWeights::advance().
    Status advance_upload(std::uint64_t bytes_most, std::uint64_t room_bytes);
    /// What has not arrived will not.
    void cancel_upload();
    /// Takes what the next step needs beside weights: activations, and the ring, as far as
    /// `budget_bytes` allow it, by the device's view; without a ring nothing streams. Returns
    /// whether all could be had.
    bool take_for_steps(std::uint64_t budget_bytes);
    /// Whether the device has kernels for the group.
    bool is_supported(std::size_t group) const { return supported_[group]; }

    /// A step of each kind as it is divided now.
    std::array<StepProgram, kStepKinds.size()> programs();
    /// Of its chunks: weights with what lies between them, the ring, and the step's memory.
    std::uint64_t held_bytes() const {
        return weights_.total_bytes() + ring_.total_bytes() + residency_.device_step_bytes;
    }
    backend::Backend& backend() const { return *setup_.backend; }
    const Residency& residency() const { return residency_; }
    const DeviceWeights& weights() const { return weights_; }
    WeightRing& ring() { return ring_; }
    /// As of the last settle().
    ExpertPlaces& experts() { return *experts_; }
    const ExpertPlaces& experts() const { return *experts_; }
    /// By memory of a program's slots and by rope table; null where no op here needs it.
    std::span<const backend::SlotView> slots() const { return slots_; }
    std::span<const backend::RopeView> rope() const { return rope_; }
    /// The same memory, to be filled.
    std::span<const Angles> angles() const { return angles_; }
    /// Host memory that rows are sent from, one buffer after the other.
    std::span<const backend::Chunk> staging() const { return staging_; }

  private:
    explicit DeviceSide(const Setup& setup);
    /// In super-chunks each kind of step has some of the ring's places.
    bool shares_ring() const { return setup_.limits.super_rows > 0; }
    /// Keeps groups on the CPU whose ops the device has no kernels for.
    void check_kernels();
    Status take_step_memory();
    const std::array<StepProgram, kStepKinds.size()>& compiled();
    /// The small tensors of groups of which nothing else is here.
    bool take_common();
    void drop_streams(int GroupResidency::*streams);
    void give_step_back();
    void count_bytes(std::int64_t kv_tokens);
    void settle_experts();
    bool has_experts(std::size_t group) const {
        return setup_.catalog->groups[group].kind == scheduler::GroupKind::kExperts;
    }
    std::vector<WeightSlice> slices_of(const Piece& piece) const;
    /// Of all that is here or on its way.
    std::vector<WeightSlice> needed_slices() const;
    void upload();
    void take_ring();
    void keep_on_cpu(std::size_t group, const std::string& reason);
    void give_up_all(const std::string& reason);
    Result<float*> take_floats(std::size_t count);
    void note_degraded();

    Setup setup_;
    std::vector<GroupOps> groups_;
    std::vector<std::size_t> ops_of_;  // by the catalog's group: its place in groups_
    std::vector<bool> supported_;      // by the catalog's group
    /// By the catalog's group: what is in memory, in order, with nothing between. A piece of no
    /// parts is what the experts of a group have in common.
    std::vector<std::vector<PartRange>> pieces_;
    std::vector<Piece> coming_;                                                // being uploaded
    std::size_t n_come_ = 0;                                                   // of them
    std::optional<std::array<StepProgram, kStepKinds.size()>> programs_ = {};  // as it is now
    Residency residency_;
    DeviceWeights weights_;
    WeightRing ring_;
    std::unique_ptr<ExpertPlaces> experts_;
    std::vector<backend::Chunk> chunks_;   // of slots and angles
    std::vector<backend::Chunk> staging_;  // the host's
    std::vector<backend::SlotView> slots_;
    std::vector<Angles> angles_;
    std::vector<backend::RopeView> rope_;
    int n_wanted_ = 0;
    std::string first_reason_;
};

}  // namespace ballast::runtime
