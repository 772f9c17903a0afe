// SPDX-License-Identifier: MIT
// The rules of sim_session.h that decide something while a session runs.
#pragma once

#include <deque>

#include "scheduler/sim/sim_session.h"

namespace ballast::scheduler {

/// What a rule works with. Borrowed.
struct RuleParts {
    SessionWorld* world = nullptr;
    PlanBook* plans = nullptr;
    const Residency* residency = nullptr;
    GpuMonitor* monitor = nullptr;
    DeviceMemory memory = {};
};

class SessionRule {
  public:
    virtual ~SessionRule() = default;
    /// The session begins with this.
    virtual void begin() = 0;
    virtual void before_step() = 0;
    /// Nothing if the step did not end.
    virtual void after_step(std::optional<double> seconds) = 0;
    virtual SessionWatcher* watcher() { return nullptr; }
};

/// LoadControl decides what may be used and when to grow, Residency what for.
class OurRule final : public SessionRule, public SessionWatcher {
  public:
    OurRule(const RuleParts& parts, const SessionOptions& options);

    void begin() override;
    void before_step() override;
    void after_step(std::optional<double> seconds) override;
    SessionWatcher* watcher() override { return this; }
    std::optional<Nanoseconds> next_poll() const override { return polled_ + poll_; }
    void poll() override;
    const LoadControl& control() const { return control_; }

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

    void observe();
    void react();
    void meet_budget();
    void shrink(std::uint64_t budget_bytes);
    void note_usable();
    void note_plan();
    void weigh(Candidate& candidate);
    void grow();
    void grow_towards(const Candidate& candidate);
    bool pays_alone(const Placement& stays, const std::vector<ResidencyGrowth>& growth);
    SimConditions shares() const;  // that plans are made for
    const StepModel& model(bool uploading = false);

    RuleParts parts_;
    LoadControl control_;
    Nanoseconds poll_;
    Nanoseconds polled_{0};
    LoadDirective directive_ = {};
    SimConditions latest_ = {};          // shares as the last sample has them, not smoothed
    std::uint64_t budget_ = 0;           // at the last reaction
    int n_changes_ = 0;                  // of the world, at the last reaction
    std::deque<Candidate> recent_;       // the latest plan first
    std::vector<Placement> plans_ = {};  // theirs, if the device may be used
    std::uint64_t limit_ = 0;            // for growth, at the last reaction
    /// What is planned for: the budget, or before the wait is over what pressure leaves anyway.
    std::uint64_t usable_ = 0;
    ResidencyUse use_ = {};
    std::optional<Placement> before_growth_ = {};  // kept at the last pressure
    double without_seconds_ = 0.0;                 // of a step with that, by the model
};

/// One plan, for ever; `replans` makes it the paper's rule.
class PlanRule final : public SessionRule {
  public:
    PlanRule(const RuleParts& parts, const Placement& plan, bool replans);

    void begin() override;
    void before_step() override;
    void after_step(std::optional<double> seconds) override;

  private:
    void replan();
    void load_missing();

    RuleParts parts_;
    Placement plan_;
    bool replans_;
    int wipes_ = 0;
    SimConditions shares_ = {};  // as seen when the plan was made
    int n_deviating_ = 0;
};

}  // namespace ballast::scheduler
