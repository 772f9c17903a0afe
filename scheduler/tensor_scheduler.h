// SPDX-License-Identifier: MIT
// The control loop: observes, decides, and publishes plans with their reasons. It never executes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "scheduler/placement/plan_answer.h"
#include "scheduler/plan.h"
#include "scheduler/share_rule.h"

namespace ballast::scheduler {

/// What plans are made for.
struct SchedulerSetup {
    TensorCatalog catalog = {};
    std::optional<HardwareProfile> hardware = {};  // none: this machine has not been measured
    double device_bytes = 0.0;                     // for weights, KV cache and ring; 0: no device
    KvReserve reserve = {};
    int context = 4096;
    int prefill_tokens = 512;  // of a prompt, for which what streams crosses once
    /// Plans follow the profile, whatever steps have taken: for a device that only plays one.
    bool plans_by_profile = false;
    Ladder ladder = {};  // what the executor can do
};

/// One run of groups on one side in one step.
struct GroupTime {
    int first_group = 0;
    int n_groups = 1;
    Side side = Side::kCpu;
    double share = 1.0;  // of the groups' parts
    double seconds = 0.0;
};

/// One decision, for people and for /ballast/v1/decisions.
struct Decision {
    std::uint64_t number = 0;  // counts from 1
    std::int64_t unix_seconds = 0;
    std::string cause = {};  // "start", "profile", or what changed the device's share
    std::string text = {};   // what was decided, and why
};

/// A snapshot for metrics and reports.
struct SchedulerState {
    std::shared_ptr<const Plan> plan = nullptr;
    bool has_hardware = false;  // without it there are no forecasts
    /// Of recent decode steps of one sequence; 0 until there was one.
    double measured_seconds = 0.0;
    double predicted_seconds = 0.0;                     // at the same depths
    double limit_fraction = 0.0;                        // T_LB / measured
    double plan_fraction = 0.0;                         // predicted / measured
    std::map<std::string, std::uint64_t> replans = {};  // by cause
    double scheduler_seconds = 0.0;                     // spent in here since the start
    std::vector<Decision> decisions = {};               // the latest, oldest first
};

/// plan() and state() from any thread, the rest from the engine's.
class TensorScheduler final : public SharePlans {
  public:
    /// Makes the first plan. The clock outlives it.
    TensorScheduler(SchedulerSetup setup, const Clock& clock);

    std::shared_ptr<const Plan> plan() const;
    SchedulerState state() const;

    /// The machine has been measured: forecasts follow it from here on. The placement stays,
    /// because the executor does not move weights while it runs.
    void set_hardware(HardwareProfile hardware);

    /// What would be best with so many bytes of the device; for adopt(), or to be dropped.
    Plan plan_for(double device_bytes);
    /// What a placement that was made otherwise promises.
    Plan plan_of(const Placement& placement, double device_bytes);
    /// This plan is followed from now on. `cause` has few values; `why` is a sentence that goes
    /// before the plan's own.
    void adopt(Plan plan, double device_bytes, const std::string& cause, const std::string& why);

    /// Times of a step that decoded one token at this depth: they correct the cost model. Of many
    /// groups only some are looked at in a step, in turn.
    void observe_decode(int depth, double seconds, std::span<const GroupTime> groups);

    /// What work takes, as corrected by what was observed; none before the machine was measured.
    /// From the engine's thread.
    const std::optional<CostModel>& costs() const { return costs_; }

    // For ShareRule, once the machine has been measured. Plans and models are made once for about
    // the same memory and shares.
    const TensorCatalog& catalog() const override { return setup_.catalog; }
    const Residency& residency() const { return residency_; }
    const Placement& share_plan(std::uint64_t memory_bytes, const MachineShares& shares) override;
    const StepModel& step_model(const MachineShares& shares) override;
    double full_link_bps() const override { return costs_->hardware().link_gbps * 1e9; }

  private:
    /// Bytes and shares, in steps.
    using ShareKey = std::array<std::int64_t, 5>;
    ShareKey share_key(double bytes, const MachineShares& shares) const;
    /// Forecast and bound of a decode step by depth, linear between the points.
    struct Curve {
        static constexpr std::size_t kPoints = 5;
        std::array<double, kPoints> depth = {};
        std::array<double, kPoints> seconds = {};
        std::array<double, kPoints> bound = {};
    };

    void make_first_plan();
    Plan best_plan(double device_bytes, const MachineShares& shares = {}) const;
    std::string sentence_of(const Plan& plan) const;
    double usable(double device_bytes) const;
    Forecast forecast(const Placement& placement, double device_bytes) const;
    /// What plans and their forecasts go by.
    CostModel plan_costs(const MachineShares& shares = {}) const;
    double predicted(const CostModel& costs,
                     const StepShape& step,
                     const Placement& placement) const;
    double bound(const StepShape& step, double device_bytes) const;
    void refresh_curve();
    void decide(const std::string& cause, std::string text);

    SchedulerSetup setup_;
    const Clock& clock_;
    Residency residency_;
    std::optional<CostModel> costs_;
    Curve curve_;
    std::map<ShareKey, Plan> share_plans_;
    std::map<ShareKey, StepModel> step_models_;
    std::size_t next_run_ = 0;    // of those looked at in turn
    std::size_t groups_due_ = 0;  // how many may be looked at
    int since_refresh_ = 0;

    mutable std::mutex mutex_;  // guards what follows
    SchedulerState state_;
    std::deque<Decision> decisions_;
    std::uint64_t n_decisions_ = 0;
};

}  // namespace ballast::scheduler
