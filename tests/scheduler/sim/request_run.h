// SPDX-License-Identifier: MIT
// Whole requests, a prompt and what is generated after it, under several programs' policies on
// simulated machines; for tests and for tests/bench.
#pragma once

#include <memory>
#include <string>

#include "engine/base/result.h"
#include "scheduler/sim/policy_run.h"

namespace ballast::test {

struct RequestSize {
    int prompt = 2;
    int generated = 1;

    /// Tokens in the cache at an average decode step.
    int mean_depth() const { return prompt + generated / 2; }
};

/// `total` tokens divided prompt : generated as these two weights are, rounded, with at least two
/// tokens of a prompt and one generated.
RequestSize divide_request(int total, double prompt_weight, double generated_weight);

/// A model on a machine, what the planner answers, and how the policies do there.
struct Scenario {
    std::unique_ptr<const scheduler::TensorCatalog> catalog = {};  // the question borrows it
    scheduler::PlanQuestion question = {};
    scheduler::PlanAnswer answer = {};
    std::vector<scheduler::PolicyRun> runs = {};
};

/// NAME or NAME:QUANT of a shipped shape; kNotFound naming the possible ones.
Result<Scenario> scenario_of(const std::string& model, const scheduler::HardwareProfile& hardware);

/// Plans for the question as `ballast simulate` does, and runs every policy that applies. Nothing
/// runs if the machine's memory is too small.
void run_question(Scenario& scenario);
/// Plans for requests of this size, in a context of as many tokens, and runs every policy.
void run_request(Scenario& scenario, const RequestSize& size);

/// From the prompt's arrival until the last token, at the mean depth's pace.
double request_seconds(const scheduler::PolicyRun& run, const RequestSize& size);

/// Null if it did not run.
const scheduler::PolicyRun* find_run(const Scenario& scenario, scheduler::SimPolicy policy);

}  // namespace ballast::test
