// SPDX-License-Identifier: MIT
// One question asked of several programs' policies on one simulated machine. Every figure is
// simulated.
#pragma once

#include <vector>

#include "scheduler/placement/plan_answer.h"
#include "scheduler/sim/simulator.h"

namespace ballast::scheduler {

enum class SimPolicy {
    kCpuOnly,
    kWholeLayers,  // llama.cpp's -ngl
    kExpertsLast,  // llama.cpp's --n-cpu-moe, tuned
    kPaper,        // ATSInfer (arXiv 2607.10183): whole groups, static or streaming
    kUnsplit,      // ours, but every group whole on one side
    kOurs,
};
constexpr std::array<SimPolicy, 6> kSimPolicies = {SimPolicy::kCpuOnly,
                                                   SimPolicy::kWholeLayers,
                                                   SimPolicy::kExpertsLast,
                                                   SimPolicy::kPaper,
                                                   SimPolicy::kUnsplit,
                                                   SimPolicy::kOurs};

/// "cpu_only", "whole_layers", … for programs and for the command line; "CPU only", … for people.
const char* sim_policy_key(SimPolicy policy);
const char* sim_policy_name(SimPolicy policy);

struct PolicyRun {
    SimPolicy policy = SimPolicy::kCpuOnly;
    Placement placement = {};
    SimulatedSteps decode = {};
    double prompt_seconds = 0.0;  // of PlanAnswer::prefill_tokens, in as many steps as it takes
    int prompt_step_tokens = 0;   // of one of these
    bool prompt_copies = false;   // what is not on the device crosses the link for a prompt

    /// From the prompt's arrival until the first token is there.
    double first_token_seconds() const { return prompt_seconds; }
};

/// Everything that is not on the device crosses the link for a prompt.
Placement with_copies(const TensorCatalog& catalog, Placement placement);

/// Nothing if the policy does not apply: no device, or experts last for a dense model. `answer` is
/// the question's. llama.cpp's prompts go in steps of 512 tokens, and what is not on the device is
/// copied when its turn comes or computed on the CPU, whichever is faster; its buffers for that are
/// not counted. The paper's copies overlap.
std::vector<PolicyRun> run_policies(const PlanQuestion& question,
                                    const PlanAnswer& answer,
                                    const std::vector<SimPolicy>& policies);

}  // namespace ballast::scheduler
