// SPDX-License-Identifier: MIT
// The rules of sim_session.h that decide something while a session runs.
#pragma once

#include "scheduler/share_rule.h"
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

/// What the engine does: the monitor's samples go to LoadControl, its directives to ShareRule.
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
    void observe();
    void count_plans() { parts_.world->result().n_plans = share_.n_plans(); }

    RuleParts parts_;
    LoadControl control_;
    ShareRule share_;
    Nanoseconds poll_;
    Nanoseconds polled_{0};
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
