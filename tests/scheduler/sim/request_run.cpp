// SPDX-License-Identifier: MIT
// Sizes of requests, and the planner asked for exactly these.
#include "tests/scheduler/sim/request_run.h"

#include <algorithm>
#include <cmath>

#include "scheduler/profile/model_store.h"

namespace ballast::test {

using scheduler::PlanAnswer;
using scheduler::PolicyRun;
using scheduler::SimPolicy;

namespace {

constexpr double kGiga = 1e9;

void run_all(Scenario& scenario) {
    const std::vector<SimPolicy> all(scheduler::kSimPolicies.begin(),
                                     scheduler::kSimPolicies.end());
    scenario.runs = scheduler::run_policies(scenario.question, scenario.answer, all);
}

}  // namespace

RequestSize divide_request(int total, double prompt_weight, double generated_weight) {
    const double share = prompt_weight / (prompt_weight + generated_weight);
    const int prompt = std::clamp(static_cast<int>(std::lround(total * share)), 2, total - 1);
    return {.prompt = prompt, .generated = total - prompt};
}

Result<Scenario> scenario_of(const std::string& model, const scheduler::HardwareProfile& hardware) {
    const std::size_t colon = model.find(':');
    BALLAST_TRY(const scheduler::ModelShape shape, scheduler::stored_model(model.substr(0, colon)));
    const std::string quant = colon == std::string::npos ? "" : model.substr(colon + 1);
    BALLAST_TRY(scheduler::TensorCatalog catalog, scheduler::catalog_of(shape, quant));
    Scenario scenario;
    scenario.catalog = std::make_unique<const scheduler::TensorCatalog>(std::move(catalog));
    scenario.question = {.catalog = scenario.catalog.get(), .hardware = hardware};
    return scenario;
}

void run_question(Scenario& scenario) {
    scenario.answer = scheduler::answer(scenario.question);
    scenario.runs.clear();
    if (scenario.answer.verdict != scheduler::Verdict::kCannotRun) {
        run_all(scenario);
    }
}

void run_request(Scenario& scenario, const RequestSize& size) {
    scheduler::PlanQuestion& question = scenario.question;
    question.context = size.prompt + size.generated;
    question.prefill_weight = size.prompt;
    question.decode_weight = size.generated;
    PlanAnswer answer = {.depth = size.mean_depth(),
                         .prefill_tokens = size.prompt,
                         .memory_bytes = question.hardware.device_memory_gb * kGiga};
    answer.result = scheduler::make_plan(scheduler::plan_request(question, answer));
    scenario.answer = std::move(answer);
    run_all(scenario);
}

double request_seconds(const PolicyRun& run, const RequestSize& size) {
    return run.prompt_seconds + size.generated * run.decode.seconds;
}

const PolicyRun* find_run(const Scenario& scenario, SimPolicy policy) {
    const auto found = std::find_if(scenario.runs.begin(),
                                    scenario.runs.end(),
                                    [&](const PolicyRun& run) { return run.policy == policy; });
    return found == scenario.runs.end() ? nullptr : &*found;
}

}  // namespace ballast::test
