// SPDX-License-Identifier: MIT
// What different programs do about a load trace: one stream of decode steps under each rule, on the
// same simulated machine. Every figure is simulated.
#pragma once

#include <array>
#include <vector>

#include "scheduler/load/load_control.h"
#include "scheduler/sim/plan_book.h"
#include "scheduler/sim/session_world.h"
#include "scheduler/sim/sim_monitor.h"

namespace ballast::scheduler {

enum class LoadRule {
    kOurs,    // LoadControl decides, Residency chooses
    kPaper,   // plans again if a step deviates by more than 15% five times in a row (ATSInfer)
    kSpill,   // the plan for an idle machine is kept; the driver moves to RAM what has no room
    kStatic,  // of the plans that always have room the best for this trace, chosen in hindsight
    kIdeal,   // the best plan of each moment, at no cost: an upper bound
};
constexpr std::array<LoadRule, 5> kLoadRules = {
    LoadRule::kOurs, LoadRule::kPaper, LoadRule::kSpill, LoadRule::kStatic, LoadRule::kIdeal};
/// "ours", … for programs; "Ballast", … for people.
const char* load_rule_key(LoadRule rule);
const char* load_rule_name(LoadRule rule);

struct LoadTrace {
    std::string name = {};
    Nanoseconds duration{0};
    std::vector<LoadSample> samples = {};  // in order of time
};

struct SessionOptions {
    LoadTrace trace = {};
    SimMonitor::Faults seen = {};  // how the monitor tells of it
    /// The monitor is asked at each step, and after so long in the middle of one. The average of
    /// the samples is as fast as they are: docs/scheduling.md says what follows from that.
    Nanoseconds poll = std::chrono::milliseconds(50);
    /// Memory's figures are the session's own.
    LoadRules rules = {};
};

/// Runs rules over traces on one machine; remembers plans and steps from one to the next.
class SimSession {
  public:
    explicit SimSession(const PlanQuestion& question, const PlanAnswer& answer);

    SessionResult run(LoadRule rule, const SessionOptions& options);
    /// Of a step of the best plan for that moment; 0 while the computer sleeps.
    double ideal_rate(const LoadTruth& truth);

    PlanBook& plans() { return plans_; }
    StepTimes& times() { return times_; }

  private:
    SessionResult run_ideal(const SessionOptions& options);
    SessionResult run_static(const SessionOptions& options);
    SessionResult run_plan(const Placement& plan, const SessionOptions& options);
    DeviceMemory memory(const SessionOptions& options) const;
    std::vector<LoadTruth> truths(const SessionOptions& options) const;

    PlanBook plans_;
    StepTimes times_;
    Residency residency_;
};

}  // namespace ballast::scheduler
