// SPDX-License-Identifier: MIT
// Each policy is a placement, and a way to take a prompt.
#include "scheduler/sim/policy_run.h"

#include <algorithm>
#include <optional>

#include "engine/base/check.h"

namespace ballast::scheduler {

namespace {

// llama.cpp's default (-ub).
constexpr int kOthersStepTokens = 512;
// Enough for the mean of what is drawn to settle within some tenths of a percent.
constexpr int kDecodeSteps = 9;
constexpr int kDecodeStepsDrawn = 65;

struct PolicyFacts {
    SimPolicy policy;
    const char* key;
    const char* name;
    std::optional<Policy> placed_by = {};  // whose placements it takes; ours otherwise
};
constexpr std::array<PolicyFacts, kSimPolicies.size()> kFacts = {{
    {SimPolicy::kCpuOnly, "cpu_only", "CPU only", Policy::kCpuOnly},
    {SimPolicy::kWholeLayers, "whole_layers", "whole layers (-ngl)", Policy::kWholeLayers},
    {SimPolicy::kExpertsLast, "experts_last", "experts last (--n-cpu-moe)", Policy::kExpertsLast},
    {SimPolicy::kPaper, "paper", "static + streaming (paper)", Policy::kStaticStreaming},
    {SimPolicy::kUnsplit, "unsplit", "Ballast without splits"},
    {SimPolicy::kOurs, "ours", "Ballast"},
}};

const PolicyFacts& facts_of(SimPolicy policy) {
    const auto* found = std::find_if(kFacts.begin(), kFacts.end(), [&](const PolicyFacts& facts) {
        return facts.policy == policy;
    });
    BALLAST_CHECK(found != kFacts.end());
    return *found;
}

class PolicyRunner {
  public:
    PolicyRunner(const PlanQuestion& question, const PlanAnswer& answer)
        : question_(question), answer_(answer), catalog_(*question.catalog) {}

    std::optional<PolicyRun> run(SimPolicy policy) const {
        std::optional<Placement> placement = place(policy);
        if (!placement) {
            return std::nullopt;
        }
        PolicyRun run{.policy = policy, .placement = std::move(*placement)};
        const bool others = policy == SimPolicy::kWholeLayers || policy == SimPolicy::kExpertsLast;
        run.decode = steps(run.placement,
                           {.shape = {.tokens = 1, .depth = answer_.depth},
                            .n_steps = catalog_.has_experts() ? kDecodeStepsDrawn : kDecodeSteps});
        run.prompt_step_tokens =
            others ? std::min(kOthersStepTokens, answer_.prefill_tokens) : answer_.prefill_tokens;
        run.prompt_seconds = prompt(run.placement, run.prompt_step_tokens, false);
        const bool may_copy = others || policy == SimPolicy::kPaper;
        if (may_copy && !question_.hardware.unified_memory) {
            const double copied =
                prompt(with_copies(catalog_, run.placement), run.prompt_step_tokens, others);
            run.prompt_copies = copied < run.prompt_seconds;
            run.prompt_seconds = std::min(copied, run.prompt_seconds);
        }
        return run;
    }

  private:
    SimulatedSteps steps(const Placement& placement, SimWorkload::Options options) const {
        options.hops = question_.hops;
        options.locality = question_.locality;
        return simulate_steps(question_.hardware, catalog_, placement, options);
    }

    /// Seconds of the prompt in steps of at most `step_tokens`.
    double prompt(const Placement& placement, int step_tokens, bool serial_copies) const {
        double seconds = 0.0;
        for (int begin = 0; begin < answer_.prefill_tokens; begin += step_tokens) {
            const int n = std::min(step_tokens, answer_.prefill_tokens - begin);
            seconds +=
                steps(placement,
                      {.shape = {.tokens = n, .depth = begin}, .serial_copies = serial_copies})
                    .seconds;
        }
        return seconds;
    }

    bool has_usable_device() const {
        return question_.hardware.has_device && answer_.memory_bytes > 0.0;
    }

    std::optional<Placement> place(SimPolicy policy) const {
        if (policy == SimPolicy::kCpuOnly) {
            return cpu_only(catalog_);
        }
        if (!has_usable_device()) {
            return std::nullopt;
        }
        if (policy == SimPolicy::kOurs) {
            return answer_.result.plan.placement;
        }
        if (policy == SimPolicy::kUnsplit) {
            PlanRequest request = plan_request(question_, answer_);
            request.ladder.splits = false;
            return make_plan(request).plan.placement;
        }
        for (const PolicyForecast& forecast : answer_.result.policies) {
            if (forecast.policy == facts_of(policy).placed_by && forecast.best) {
                return forecast.best->placement;
            }
        }
        return std::nullopt;
    }

    const PlanQuestion& question_;
    const PlanAnswer& answer_;
    const TensorCatalog& catalog_;
};

}  // namespace

Placement with_copies(const TensorCatalog& catalog, Placement placement) {
    for (std::size_t i = 0; i < placement.groups.size(); ++i) {
        GroupPlacement& placed = placement.groups[i];
        placed.prefill_streamed = catalog.groups[i].parts - placed.resident;
    }
    return placement;
}

const char* sim_policy_key(SimPolicy policy) {
    return facts_of(policy).key;
}

const char* sim_policy_name(SimPolicy policy) {
    return facts_of(policy).name;
}

std::vector<PolicyRun> run_policies(const PlanQuestion& question,
                                    const PlanAnswer& answer,
                                    const std::vector<SimPolicy>& policies) {
    const PolicyRunner runner(question, answer);
    std::vector<PolicyRun> runs;
    for (const SimPolicy policy : policies) {
        if (auto run = runner.run(policy)) {
            runs.push_back(std::move(*run));
        }
    }
    return runs;
}

}  // namespace ballast::scheduler
