// SPDX-License-Identifier: MIT
// What is left of a machine is a machine of its own, with its own tables.
#include "scheduler/sim/plan_book.h"

#include <algorithm>
#include <cmath>

namespace ballast::scheduler {

namespace {

constexpr std::uint64_t kMemoryStep = 16ULL << 20U;

SimConditions rounded(SimConditions shares) {
    const auto round = [](double share) {
        return std::max(0.01, std::round(100.0 * share) / 100.0);
    };
    shares.device = round(shares.device);
    shares.link = round(shares.link);
    shares.cpu = round(shares.cpu);
    shares.stalled = false;
    return shares;
}

SimConditions conditions_of(const MachineShares& shares) {
    return {.device = shares.device,
            .link = shares.link,
            .cpu = shares.cpu,
            .uploading = shares.uploading};
}

PlanRequest decode_alone(PlanRequest request) {
    request.prefill_weight = 0.0;
    request.decode_weight = 1.0;
    return request;
}

}  // namespace

PlanBook::PlanBook(const PlanQuestion& question, const PlanAnswer& answer)
    : question_(question), request_(decode_alone(plan_request(question, answer))) {}

const Placement& PlanBook::plan(std::uint64_t memory_bytes, const SimConditions& shares) {
    SimConditions of = rounded(shares);
    of.uploading = false;
    Machine& machine = machines_[of];
    const std::uint64_t bytes = memory_bytes / kMemoryStep * kMemoryStep;
    const auto found = machine.plans.find(bytes);
    if (found != machine.plans.end()) {
        return found->second;
    }
    Placement placement = cpu_only(catalog());
    if (bytes > 0 && hardware().has_device) {
        if (!machine.replanner) {
            PlanRequest request = request_;
            request.costs = CostModel(scaled(hardware(), of.shares()));
            machine.replanner = std::make_unique<Replanner>(request);
        }
        placement = machine.replanner->replan(static_cast<double>(bytes)).plan.placement;
        for (GroupPlacement& placed : placement.groups) {
            placed.prefill_streamed = 0;
        }
    }
    return machine.plans.emplace(bytes, std::move(placement)).first->second;
}

const StepModel& PlanBook::model(const SimConditions& shares) {
    const SimConditions of = rounded(shares);
    const auto found = models_.find(of);
    if (found != models_.end()) {
        return found->second;
    }
    MachineShares left = of.shares();
    left.uploading = of.uploading;
    const HardwareProfile machine = scaled(hardware(), left);
    const StepOptions options{.shape = {.tokens = 1, .depth = request_.depth},
                              .hops = request_.hops,
                              .locality = request_.locality};
    return models_.emplace(of, StepModel(catalog(), CostModel(machine), options)).first->second;
}

const Placement& PlanBook::share_plan(std::uint64_t memory_bytes, const MachineShares& shares) {
    return plan(memory_bytes, conditions_of(shares));
}

const StepModel& PlanBook::step_model(const MachineShares& shares) {
    return model(conditions_of(shares));
}

}  // namespace ballast::scheduler
