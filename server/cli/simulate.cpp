// SPDX-License-Identifier: MIT
// `ballast simulate`: a model's steps on a machine that need not be there, under each policy, and
// what the hardware allows. Every figure is simulated.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scheduler/sim/policy_run.h"
#include "scheduler/sim/trace.h"
#include "server/cli/commands.h"
#include "server/cli/plan_question.h"
#include "server/cli/report.h"
#include "server/cli/simulate_load.h"
#include "server/cli/simulate_seed.h"
#include "server/cli/trace_file.h"

namespace ballast::cli {

namespace {

using scheduler::PlanAnswer;
using scheduler::PlanQuestion;
using scheduler::PolicyRun;
using scheduler::SimPolicy;

Result<std::vector<SimPolicy>> policies_named(const std::string& name) {
    std::vector<SimPolicy> all(scheduler::kSimPolicies.begin(), scheduler::kSimPolicies.end());
    std::string keys = "all";
    for (const SimPolicy policy : all) {
        if (name == scheduler::sim_policy_key(policy)) {
            return std::vector<SimPolicy>{policy};
        }
        keys += fmt::format(", {}", scheduler::sim_policy_key(policy));
    }
    if (name == "all") {
        return all;
    }
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("--policy is \"{}\"; possible are {}.", printable(name, 64), keys));
}

Result<scheduler::HopModel> hops_named(const std::string& name) {
    if (name == "overlapped") {
        return scheduler::HopModel::kOverlapped;
    }
    if (name == "blocking") {
        return scheduler::HopModel::kBlocking;
    }
    return fail(ErrorCode::kInvalidRequest,
                fmt::format("--hops is \"{}\"; possible are overlapped and blocking.",
                            printable(name, 64)));
}

double per_second(double amount, double seconds) {
    return seconds > 0.0 ? amount / seconds : 0.0;
}

void print_row(const std::string& name,
               double decode_seconds,
               double prompt_seconds,
               int prompt_tokens,
               const std::string& lanes,
               double limit) {
    fmt::print("{:<29}{:>9.2f}{:>11.1f}{:>9.2f}  {:<20}{:>6.0f}%\n",
               name,
               per_second(1.0, decode_seconds),
               per_second(prompt_tokens, prompt_seconds),
               prompt_seconds,
               lanes,
               100.0 * limit);
}

void print_table(const PlanQuestion& question,
                 const PlanAnswer& answer,
                 const std::vector<PolicyRun>& runs) {
    fmt::print("{} on {}, simulated:\nprompts of {} tokens, generation with {} in the cache\n\n",
               printable(question.catalog->name, 80),
               printable(question.hardware.name, 80),
               answer.prefill_tokens,
               answer.depth);
    fmt::print("{:<29}{:>9}{:>11}{:>9}  {:<20}{:>7}\n",
               "",
               "decode",
               "prefill",
               "first",
               "decode: GPU/CPU/link",
               "of the");
    fmt::print("{:<29}{:>9}{:>11}{:>9}  {:<20}{:>7}\n",
               "policy",
               "tokens/s",
               "tokens/s",
               "token s",
               "busy, % of the time",
               "limit");
    for (const PolicyRun& run : runs) {
        print_row(scheduler::sim_policy_name(run.policy),
                  run.decode.seconds,
                  run.prompt_seconds,
                  answer.prefill_tokens,
                  fmt::format("{:>4.0f}{:>5.0f}{:>5.0f}",
                              100.0 * run.decode.device_busy,
                              100.0 * run.decode.cpu_busy,
                              100.0 * run.decode.link_busy),
                  answer.decode_limit_seconds / run.decode.seconds);
    }
    print_row("physical limit",
              answer.decode_limit_seconds,
              answer.prefill_limit_seconds,
              answer.prefill_tokens,
              "",
              1.0);
}

nlohmann::json run_json(const PlanAnswer& answer, const PolicyRun& run) {
    return {{"policy", scheduler::sim_policy_key(run.policy)},
            {"decode_seconds", run.decode.seconds},
            {"decode_tokens_per_second", per_second(1.0, run.decode.seconds)},
            {"prefill_seconds", run.prompt_seconds},
            {"prefill_tokens_per_second", per_second(answer.prefill_tokens, run.prompt_seconds)},
            {"first_token_seconds", run.first_token_seconds()},
            {"prefill_step_tokens", run.prompt_step_tokens},
            {"prefill_copies_weights", run.prompt_copies},
            {"device_busy", run.decode.device_busy},
            {"cpu_busy", run.decode.cpu_busy},
            {"link_busy", run.decode.link_busy},
            {"link_bytes", run.decode.link_bytes},
            {"decode_limit_fraction", answer.decode_limit_seconds / run.decode.seconds},
            {"prefill_limit_fraction", answer.prefill_limit_seconds / run.prompt_seconds}};
}

void print_json(const PlanQuestion& question,
                const PlanAnswer& answer,
                const std::vector<PolicyRun>& runs) {
    nlohmann::json rows = nlohmann::json::array();
    for (const PolicyRun& run : runs) {
        rows.push_back(run_json(answer, run));
    }
    const nlohmann::json all = {{"simulated", true},
                                {"model", question.catalog->name},
                                {"hardware", question.hardware.name},
                                {"prefill_tokens", answer.prefill_tokens},
                                {"depth", answer.depth},
                                {"device_bytes", answer.memory_bytes},
                                {"decode_limit_seconds", answer.decode_limit_seconds},
                                {"prefill_limit_seconds", answer.prefill_limit_seconds},
                                {"policies", std::move(rows)}};
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// A few decode steps of the last policy that was run, which is ours where all are.
Status save_trace(const SimulateArgs& args,
                  const PlanQuestion& question,
                  const PlanAnswer& answer,
                  const PolicyRun& run) {
    constexpr int kTracedSteps = 4;
    scheduler::SimTrace trace;
    scheduler::simulate_steps(question.hardware,
                              *question.catalog,
                              run.placement,
                              {.shape = {.tokens = 1, .depth = answer.depth},
                               .hops = question.hops,
                               .locality = question.locality,
                               .n_steps = kTracedSteps},
                              {},
                              &trace);
    return write_trace(args.trace_file,
                       trace.to_json(*question.catalog,
                                     fmt::format("{} on {}, {}, simulated",
                                                 question.catalog->name,
                                                 question.hardware.name,
                                                 scheduler::sim_policy_name(run.policy))));
}

Status run(const SimulateArgs& args, const config::Environment& environment) {
    if (args.seed) {
        return simulate_seed(*args.seed, args.asked.json);
    }
    BALLAST_TRY(AskedPlan asked, ask_plan(args.asked, environment));
    BALLAST_TRY(asked.question.hops, hops_named(args.hops));
    const PlanAnswer answer = scheduler::answer(asked.question);
    if (answer.verdict == scheduler::Verdict::kCannotRun) {
        return fail(ErrorCode::kInvalidRequest, answer.sentence);
    }
    if (!args.load_trace.empty() && !args.trace_file.empty()) {
        return fail(ErrorCode::kInvalidRequest,
                    "--save-trace shows decode steps of an idle machine; leave out --load-trace.");
    }
    if (!args.load_trace.empty()) {
        return simulate_load(args, asked.question, answer);
    }
    BALLAST_TRY(const std::vector<SimPolicy> policies, policies_named(args.policy));
    const std::vector<PolicyRun> runs = scheduler::run_policies(asked.question, answer, policies);
    if (runs.empty()) {
        return fail(
            ErrorCode::kInvalidRequest,
            fmt::format("--policy {} says nothing of this model on this machine.", args.policy));
    }
    if (!args.trace_file.empty()) {
        BALLAST_TRY_STATUS(save_trace(args, asked.question, answer, runs.back()));
    }
    if (args.asked.json) {
        print_json(asked.question, answer, runs);
    } else {
        print_table(asked.question, answer, runs);
    }
    return {};
}

}  // namespace

int simulate(const SimulateArgs& args, const config::Environment& environment) {
    const Status status = run(args, environment);
    return status ? kExitSuccess : report(status.error());
}

}  // namespace ballast::cli
