// SPDX-License-Identifier: MIT
// Each policy is a placement, and a way to take a prompt.
#include "scheduler/sim/policy_run.h"

#include <algorithm>
#include <optional>

namespace ballast::scheduler {

namespace {

// llama.cpp's default (-ub).
constexpr int kOthersStepTokens = 512;
// Enough for the mean of what is drawn to settle within some tenths of a percent.
constexpr int kDecodeSteps = 9;
constexpr int kDecodeStepsDrawn = 65;

std::optional<Policy> policy_of(SimPolicy policy) {
    switch (policy) {
        case SimPolicy::kCpuOnly:
            return Policy::kCpuOnly;
        case SimPolicy::kWholeLayers:
            return Policy::kWholeLayers;
        case SimPolicy::kExpertsLast:
            return Policy::kExpertsLast;
        case SimPolicy::kPaper:
            return Policy::kStaticStreaming;
        case SimPolicy::kUnsplit:
        case SimPolicy::kOurs:
            return std::nullopt;
    }
    return std::nullopt;
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
                prompt(with_copies(run.placement), run.prompt_step_tokens, others);
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

    /// Everything that is not on the device crosses the link for a prompt.
    Placement with_copies(Placement placement) const {
        for (std::size_t i = 0; i < placement.groups.size(); ++i) {
            GroupPlacement& placed = placement.groups[i];
            placed.prefill_streamed = catalog_.groups[i].parts - placed.resident;
        }
        return placement;
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
            if (forecast.policy == policy_of(policy) && forecast.best) {
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

const char* sim_policy_key(SimPolicy policy) {
    switch (policy) {
        case SimPolicy::kCpuOnly:
            return "cpu_only";
        case SimPolicy::kWholeLayers:
            return "whole_layers";
        case SimPolicy::kExpertsLast:
            return "experts_last";
        case SimPolicy::kPaper:
            return "paper";
        case SimPolicy::kUnsplit:
            return "unsplit";
        case SimPolicy::kOurs:
            return "ours";
    }
    return "";
}

const char* sim_policy_name(SimPolicy policy) {
    switch (policy) {
        case SimPolicy::kCpuOnly:
            return "CPU only";
        case SimPolicy::kWholeLayers:
            return "whole layers (-ngl)";
        case SimPolicy::kExpertsLast:
            return "experts last (--n-cpu-moe)";
        case SimPolicy::kPaper:
            return "static + streaming (paper)";
        case SimPolicy::kUnsplit:
            return "Ballast without splits";
        case SimPolicy::kOurs:
            return "Ballast";
    }
    return "";
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
