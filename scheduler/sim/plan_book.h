// SPDX-License-Identifier: MIT
// Plans for what may be left of one machine, each made once.
#pragma once

#include <map>
#include <memory>

#include "scheduler/placement/plan_answer.h"
#include "scheduler/share_rule.h"
#include "scheduler/sim/sim_machine.h"

namespace ballast::scheduler {

/// For decode alone. The question's catalog outlives it.
class PlanBook final : public SharePlans {
  public:
    PlanBook(const PlanQuestion& question, const PlanAnswer& answer);

    const TensorCatalog& catalog() const override { return *request_.catalog; }
    const KvReserve& reserve() const { return request_.reserve; }
    const HardwareProfile& hardware() const { return question_.hardware; }
    int depth() const { return request_.depth; }
    double memory_bytes() const { return request_.memory_bytes; }
    /// The device's, of which the above may be a part.
    double device_bytes() const { return question_.hardware.device_memory_gb * 1e9; }

    /// The planner's for this much memory, in steps of 16 MiB, and these shares, in steps of 0.01.
    const Placement& plan(std::uint64_t memory_bytes, const SimConditions& shares);
    /// The planner's model of a step under these shares, likewise rounded.
    const StepModel& model(const SimConditions& shares);

    const Placement& share_plan(std::uint64_t memory_bytes, const MachineShares& shares) override;
    const StepModel& step_model(const MachineShares& shares) override;
    double full_link_bps() const override { return question_.hardware.link_gbps * 1e9; }

  private:
    struct Machine {
        std::unique_ptr<Replanner> replanner = {};
        std::map<std::uint64_t, Placement> plans = {};
    };

    PlanQuestion question_;
    PlanRequest request_;
    std::map<SimConditions, Machine> machines_;
    std::map<SimConditions, StepModel> models_;
};

}  // namespace ballast::scheduler
