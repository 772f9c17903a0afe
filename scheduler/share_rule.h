// SPDX-License-Identifier: MIT
// What becomes of the device's share while others come and go: shrink at once, grow slowly, both in
// parts. LoadControl says what may be used, Residency for what; the simulator and the engine each
// carry it out.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "scheduler/load/load_control.h"
#include "scheduler/machine_shares.h"
#include "scheduler/placement/residency.h"

namespace ballast::scheduler {

/// Every change of what is kept costs about so long, and so does the beginning of an upload: the
/// memory is freed or taken within it (research).
constexpr Nanoseconds kChangeStall = std::chrono::milliseconds(30);

/// Has the device's share, and does what it is told between two steps.
class ShareKeeper {
  public:
    virtual ~ShareKeeper() = default;
    /// What is in device memory, whether it is used or not. Only residents count.
    virtual const Placement& kept() const = 0;
    /// What the next step runs with.
    virtual const Placement& executed() const = 0;
    virtual bool uploading() const = 0;
    /// Counts up whenever something has arrived or was lost.
    virtual int n_changes() const = 0;
    /// All of ours on the device: of what is kept, executed and on its way, and the overhead.
    virtual std::uint64_t held_bytes() const = 0;
    /// Of these what is neither weights, nor keys and values, nor the ring.
    virtual std::uint64_t overhead_bytes() const { return 0; }
    /// The same with no more residents dropped in part than keep() can: where it would drop all of
    /// them, none are left.
    virtual Placement as_droppable(Placement placement) const { return placement; }

    /// Only these residents stay; of an upload, what has arrived before.
    virtual void keep(const Placement& kept) = 0;
    virtual void execute(const Placement& executed) = 0;
    /// Begins. None may be under way. What has arrived is kept from the next step on.
    virtual void upload(const std::vector<ResidencyGrowth>& growth) = 0;
    virtual void cancel_upload() = 0;
};

/// What would be best, and how long it would take. What is returned holds until the next call.
class SharePlans {
  public:
    virtual ~SharePlans() = default;
    virtual const TensorCatalog& catalog() const = 0;
    /// The planner's for this much memory, without overhead.
    virtual const Placement& share_plan(std::uint64_t memory_bytes,
                                        const MachineShares& shares) = 0;
    /// Of a step that decodes one token.
    virtual const StepModel& step_model(const MachineShares& shares) = 0;
    /// Bytes a second, with nobody else there.
    virtual double full_link_bps() const = 0;
};

/// The engine's thread, or the simulator's. What it is made of outlives it.
class ShareRule {
  public:
    struct Parts {
        ShareKeeper* keeper = nullptr;
        SharePlans* plans = nullptr;
        const Residency* residency = nullptr;
        LoadControl* control = nullptr;
    };
    explicit ShareRule(const Parts& parts) : parts_(parts) {}

    /// This plan is carried out already.
    void begin(const LoadDirective& directive, const Placement& plan);
    /// In the middle of a step, or whenever it must not wait: only what must go goes, and what
    /// stays is used as before. Afterwards held_bytes() may still be too much by what the keeper
    /// cannot free.
    void meet_budget(std::uint64_t budget_bytes);
    /// Between two steps. `may_grow`: an upload may begin.
    void before_step(Nanoseconds now, const LoadDirective& directive, bool may_grow = true);
    /// A step took so long.
    void after_step(double seconds);

    /// Plans that were made, the first one too.
    int n_plans() const { return n_plans_; }
    /// The latest one; null before begin().
    const Placement* plan() const { return recent_.empty() ? nullptr : &recent_.front().plan; }
    /// A step with what is executed, by the model.
    double seconds() const { return use_.seconds; }

  private:
    /// A plan whose residents may be worth an upload. What the lack of them costs adds up, also
    /// below nothing while it gains, until it is more than the upload would cost: a swap for a
    /// moment is not begun.
    struct Candidate {
        Placement plan = {};
        Placement wanted = {};    // kept then
        std::uint64_t bytes = 0;  // to be uploaded
        bool drops = false;       // what the plan does not want
        double gain = 0.0;        // of the time
        double cost_seconds = 0.0;
        double owed_seconds = 0.0;
    };

    void react(Nanoseconds now);
    void shrink(std::uint64_t budget_bytes);
    void note_usable(Nanoseconds now);
    void note_plan();
    void weigh(Candidate& candidate);
    void grow(Nanoseconds now);
    void grow_towards(Nanoseconds now, const Candidate& candidate);
    bool pays_alone(const Placement& stays, const std::vector<ResidencyGrowth>& growth);
    MachineShares shares() const;  // that plans are made for
    MachineShares latest() const;  // as the last sample has them, not smoothed
    const StepModel& model(bool uploading = false);
    /// Of so many bytes of the device, for what plans are about.
    std::uint64_t room(std::uint64_t bytes) const;

    Parts parts_;
    LoadDirective directive_ = {};
    std::uint64_t budget_ = 0;           // at the last reaction
    int n_changes_ = 0;                  // of the keeper, at the last reaction
    std::deque<Candidate> recent_;       // the latest plan first
    std::vector<Placement> plans_ = {};  // theirs, if the device may be used
    std::uint64_t limit_ = 0;            // for growth, at the last reaction
    /// What is planned for: the budget, or before the wait is over what pressure leaves anyway.
    std::uint64_t usable_ = 0;
    ResidencyUse use_ = {};
    std::optional<Placement> before_growth_ = {};  // kept at the last pressure
    double without_seconds_ = 0.0;                 // of a step with that, by the model
    int n_plans_ = 0;
};

}  // namespace ballast::scheduler
