// SPDX-License-Identifier: MIT
// Prints the tables of docs/scheduling.md's open questions.
//
// Usage: sim_questions NAME|all [quick]
#include "tests/bench/sim_questions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "scheduler/profile/profile_store.h"

namespace ballast::test {

using scheduler::PolicyRun;
using scheduler::SimPolicy;

Scenario shipped_scenario(const std::string& model, const std::string& machine) {
    const auto hardware = scheduler::stored_hardware(machine);
    if (!hardware) {
        fmt::print(stderr, "{}\n", hardware.error().message);
        std::exit(1);
    }
    auto scenario = scenario_of(model, *hardware);
    if (!scenario) {
        fmt::print(stderr, "{}\n", scenario.error().message);
        std::exit(1);
    }
    return std::move(*scenario);
}

double decode_seconds(const PolicyRun& run) {
    return run.decode.seconds;
}

double prompt_seconds(const PolicyRun& run) {
    return run.prompt_seconds;
}

double least(const Scenario& scenario,
             std::initializer_list<SimPolicy> policies,
             SecondsOf seconds) {
    double result = std::numeric_limits<double>::infinity();
    for (const SimPolicy policy : policies) {
        if (const PolicyRun* run = find_run(scenario, policy)) {
            result = std::min(result, seconds(*run));
        }
    }
    return result;
}

double least_of_llama_cpp(const Scenario& scenario, SecondsOf seconds) {
    return least(
        scenario, {SimPolicy::kCpuOnly, SimPolicy::kWholeLayers, SimPolicy::kExpertsLast}, seconds);
}

double ours(const Scenario& scenario, SecondsOf seconds) {
    return least(scenario, {SimPolicy::kOurs}, seconds);
}

std::string figure(double value) {
    if (!std::isfinite(value)) {
        return "-";
    }
    if (value >= 100) {
        return fmt::format("{:.0f}", value);
    }
    const int decimals = value >= 10 ? 1 : value >= 0.1 ? 2 : 3;
    return fmt::format("{:.{}f}", value, decimals);
}

std::string decode_cell(const Scenario& scenario) {
    const double step = ours(scenario, decode_seconds);
    return fmt::format(
        "{} ({})", figure(1.0 / step), figure(least_of_llama_cpp(scenario, decode_seconds) / step));
}

std::string prompt_cell(const Scenario& scenario) {
    const double prompt = ours(scenario, prompt_seconds);
    return fmt::format("{} ({})",
                       figure(scenario.answer.prefill_tokens / prompt),
                       figure(least_of_llama_cpp(scenario, prompt_seconds) / prompt));
}

void print_row(const std::vector<std::string>& cells) {
    fmt::print("| {} |\n", fmt::join(cells, " | "));
}

void print_head(const std::vector<std::string>& columns) {
    print_row(columns);
    print_row(std::vector<std::string>(columns.size(), "---"));
}

namespace {

struct Question {
    const char* name;
    const char* text;
    void (*ask)(bool quick);
};
constexpr std::array<Question, 8> kQuestions = {{
    {"mix", "How the gain depends on prompt : generated tokens", ask_mix},
    {"link", "How it depends on the link", ask_link},
    {"quantisation", "Whether quantisation keeps the gain", ask_quantisation},
    {"routing", "Whether experts models keep it however they are routed", ask_routing},
    {"load", "What a busy CPU costs, and what planning again gains", ask_load},
    {"vendors", "Who gains: vendors, own and unified memory", ask_vendors},
    {"break-even", "The GPU below which the CPU alone does as well", ask_break_even},
    {"llama4", "Llama 4 on 24 GB and 128 GiB", ask_llama4},
}};

int usage() {
    fmt::print(stderr, "usage: sim_questions NAME|all [quick]\nNAME is one of:\n");
    for (const Question& question : kQuestions) {
        fmt::print(stderr, "  {:<14}{}\n", question.name, question.text);
    }
    return 2;
}

int run(int argc, char** argv) {
    const bool quick = argc == 3 && std::strcmp(argv[2], "quick") == 0;
    if (argc < 2 || (argc == 3 && !quick) || argc > 3) {
        return usage();
    }
    const bool all = std::strcmp(argv[1], "all") == 0;
    bool asked = false;
    for (const Question& question : kQuestions) {
        if (all || std::strcmp(argv[1], question.name) == 0) {
            fmt::print("{}## {} ({})\n\n", asked ? "\n" : "", question.text, question.name);
            question.ask(quick);
            asked = true;
        }
    }
    return asked ? 0 : usage();
}

}  // namespace
}  // namespace ballast::test

int main(int argc, char** argv) {
    return ballast::test::run(argc, argv);
}
