// SPDX-License-Identifier: MIT
// The questions about models and what is asked of them: the mix of prompt and answer, quantisation,
// routing, and models that hardly fit.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tests/bench/sim_questions.h"

namespace ballast::test {

using scheduler::GroupKind;
using scheduler::Locality;
using scheduler::PolicyRun;
using scheduler::SimPolicy;
using scheduler::TensorCatalog;

namespace {

constexpr double kGiga = 1e9;

/// Seconds of the request under the fastest of these.
double least_request(const Scenario& scenario,
                     std::initializer_list<SimPolicy> policies,
                     const RequestSize& size) {
    double result = std::numeric_limits<double>::infinity();
    for (const SimPolicy policy : policies) {
        if (const PolicyRun* run = find_run(scenario, policy)) {
            result = std::min(result, request_seconds(*run, size));
        }
    }
    return result;
}

/// The paper's rules may choose any placement of whole groups, with or without streams, and have a
/// prompt's copies overlap. In their favour each phase is the best that one of ours makes of that.
double paper_decode_seconds(const Scenario& scenario) {
    return least(
        scenario,
        {SimPolicy::kPaper, SimPolicy::kUnsplit, SimPolicy::kWholeLayers, SimPolicy::kExpertsLast},
        decode_seconds);
}
double paper_prompt_seconds(const Scenario& scenario) {
    return least(scenario, {SimPolicy::kPaper, SimPolicy::kUnsplit}, prompt_seconds);
}

}  // namespace

void ask_mix(bool quick) {
    struct Mix {
        double prompt;
        double generated;
        bool marked = false;
    };
    constexpr int kTokens = 4200;
    constexpr std::array<Mix, 11> kMixes = {{{100, 1},
                                             {40, 1},
                                             {20, 1, true},
                                             {10, 1},
                                             {3, 1},
                                             {1, 1},
                                             {1, 3},
                                             {1, 10},
                                             {1, 20, true},
                                             {1, 40},
                                             {1, 100}}};
    const std::array<const char*, 3> models = {"qwen3-14b", "qwen3-32b", "qwen3-30b-a3b"};
    std::vector<std::string> columns = {"prompt : generated", "tokens"};
    for (const char* model : models) {
        columns.push_back(fmt::format("{}: s", model));
        columns.emplace_back("/ -ngl");
        if (shipped_scenario(model, "laptop-4060").catalog->has_experts()) {
            columns.emplace_back("/ llama.cpp's best");
        }
        columns.emplace_back("/ paper");
    }
    print_head(columns);
    for (const Mix& mix : kMixes) {
        const RequestSize size = divide_request(kTokens, mix.prompt, mix.generated);
        const char* bold = mix.marked ? "**" : "";
        std::vector<std::string> cells = {
            fmt::format("{}{} : {}{}", bold, mix.prompt, mix.generated, bold),
            fmt::format("{}{} + {}{}", bold, size.prompt, size.generated, bold)};
        for (const char* model : models) {
            Scenario scenario = shipped_scenario(model, "laptop-4060");
            run_request(scenario, size);
            const double plan = least_request(scenario, {SimPolicy::kOurs}, size);
            const auto gain = [&](std::initializer_list<SimPolicy> others) {
                cells.push_back(figure(least_request(scenario, others, size) / plan));
            };
            cells.push_back(figure(plan));
            gain({SimPolicy::kWholeLayers});
            if (scenario.catalog->has_experts()) {
                gain({SimPolicy::kCpuOnly, SimPolicy::kWholeLayers, SimPolicy::kExpertsLast});
            }
            cells.push_back(figure(
                (paper_prompt_seconds(scenario) + size.generated * paper_decode_seconds(scenario)) /
                plan));
        }
        print_row(cells);
        if (quick) {
            return;
        }
    }
}

void ask_quantisation(bool quick) {
    struct Case {
        const char* model;
        const char* machine;
        double memory_share = 0.0;  // of the weights; 0: the machine's own
        Locality locality = Locality::kUniform;
    };
    constexpr std::array<Case, 4> kCases = {
        {{"llama-3.1-8b", "laptop-4060"},
         {"llama-3.1-8b", "laptop-4060", 0.75},
         {"qwen3-14b", "desktop-4070"},
         {"qwen3-30b-a3b", "desktop-4070", 0.34, Locality::kWeak}}};
    print_head({"model",
                "machine",
                "GB",
                "GPU memory GB",
                "plan",
                "decode tokens/s (gain)",
                "of the limit",
                "prefill tokens/s (gain)"});
    for (const Case& one : kCases) {
        for (const char* quant : {"F16", "Q8_0", "Q4_K_M"}) {
            Scenario scenario =
                shipped_scenario(fmt::format("{}:{}", one.model, quant), one.machine);
            const auto bytes = static_cast<double>(scenario.catalog->total_bytes());
            scenario.question.locality = one.locality;
            if (one.memory_share > 0.0) {
                scenario.question.hardware.device_memory_gb = one.memory_share * bytes / kGiga;
            }
            run_question(scenario);
            print_row({fmt::format("{} {}", one.model, quant),
                       one.machine,
                       figure(bytes / kGiga),
                       figure(scenario.question.hardware.device_memory_gb),
                       scheduler::verdict_name(scenario.answer.verdict),
                       decode_cell(scenario),
                       fmt::format("{:.0f}%",
                                   100.0 * scenario.answer.decode_limit_seconds /
                                       ours(scenario, decode_seconds)),
                       prompt_cell(scenario)});
            if (quick) {
                return;
            }
        }
    }
}

namespace {

/// Routed experts of the model that are in device memory, as a share.
double experts_resident(const Scenario& scenario) {
    double resident = 0.0;
    double all = 0.0;
    const auto& placed = scenario.answer.result.plan.placement.groups;
    for (std::size_t i = 0; i < placed.size(); ++i) {
        const scheduler::TensorGroup& group = scenario.catalog->groups[i];
        if (group.kind == GroupKind::kExperts) {
            resident += placed[i].resident;
            all += group.parts;
        }
    }
    return all > 0.0 ? resident / all : 0.0;
}

/// How many bits say which of `n` experts was asked for.
double routing_bits(Locality locality, int n) {
    double bits = 0.0;
    for (int i = 0; i < n; ++i) {
        const double popularity = scheduler::hit_rate(locality, (i + 1.0) / n) -
                                  scheduler::hit_rate(locality, static_cast<double>(i) / n);
        bits -= popularity * std::log2(popularity);
    }
    return bits;
}

struct LocalityName {
    Locality locality;
    const char* name;
};
constexpr std::array<LocalityName, 3> kLocalities = {
    {{Locality::kStrong, "strong"}, {Locality::kWeak, "weak"}, {Locality::kUniform, "uniform"}}};

int n_experts(const TensorCatalog& catalog) {
    int most = 0;
    for (const scheduler::TensorGroup& group : catalog.groups) {
        most = group.kind == GroupKind::kExperts ? std::max(most, group.parts) : most;
    }
    return most;
}

}  // namespace

void ask_routing(bool quick) {
    struct Pair {
        const char* model;
        const char* machine;
    };
    constexpr std::array<Pair, 4> kPairs = {{{"qwen3-30b-a3b", "laptop-4060"},
                                             {"gpt-oss-20b", "laptop-4060"},
                                             {"gpt-oss-120b", "desktop-4090"},
                                             {"qwen3.5-122b-a10b", "desktop-5090"}}};
    print_head({"model",
                "machine",
                "routing",
                "bits of",
                "experts on the GPU",
                "decode tokens/s",
                "/ llama.cpp's best",
                "of the limit"});
    for (const Pair& pair : kPairs) {
        for (const LocalityName& of : kLocalities) {
            Scenario scenario = shipped_scenario(pair.model, pair.machine);
            scenario.question.locality = of.locality;
            // What routing changes is decode.
            scenario.question.prefill_weight = 0.0;
            run_question(scenario);
            const int n = n_experts(*scenario.catalog);
            const double step = ours(scenario, decode_seconds);
            print_row(
                {pair.model,
                 pair.machine,
                 of.name,
                 fmt::format("{:.2f} / {:.2f}", routing_bits(of.locality, n), std::log2(n)),
                 fmt::format("{:.0f}%", 100.0 * experts_resident(scenario)),
                 figure(1.0 / step),
                 figure(least_of_llama_cpp(scenario, decode_seconds) / step),
                 fmt::format("{:.0f}%", 100.0 * scenario.answer.decode_limit_seconds / step)});
            if (quick) {
                return;
            }
        }
    }
}

namespace {

/// Of what can be placed: the embedding's weights are not counted in a catalog.
double bits_a_weight(const TensorCatalog& catalog) {
    double weights = 0.0;
    for (const scheduler::TensorGroup& group : catalog.groups) {
        weights += static_cast<double>(group.weights);
        if (group.kind == GroupKind::kExperts) {
            weights += static_cast<double>(group.expert_weights) * group.parts;
        }
    }
    return 8.0 * static_cast<double>(catalog.total_bytes() - catalog.embedding_bytes) / weights;
}

/// RAM that the plan needs and the machine has not, with 4 GB for the system as `ballast plan` has.
double missing_bytes(const Scenario& scenario) {
    return scenario.answer.host_bytes - (scenario.question.hardware.ram_gb - 4.0) * kGiga;
}

}  // namespace

void ask_llama4(bool quick) {
    constexpr double kRamBytes = 128.0 * 1024 * 1024 * 1024;
    print_head({"model",
                "GB",
                "bits a weight",
                "RAM needed GB",
                "short of GB",
                "experts on the GPU",
                "decode tokens/s uniform (gain)",
                "weak (gain)",
                "strong (gain)",
                "prefill tokens/s (gain)"});
    for (const char* model : {"llama-4-scout", "llama-4-maverick"}) {
        for (const char* quant : {"Q4_0", "Q4_K_M", "Q6_K", "Q8_0", "F16"}) {
            std::vector<std::string> cells;
            std::string prefill;
            for (const Locality locality :
                 {Locality::kUniform, Locality::kWeak, Locality::kStrong}) {
                Scenario scenario =
                    shipped_scenario(fmt::format("{}:{}", model, quant), "desktop-4090");
                scenario.question.hardware.ram_gb = kRamBytes / kGiga;
                scenario.question.locality = locality;
                run_question(scenario);
                const bool runs = scenario.answer.verdict != scheduler::Verdict::kCannotRun;
                if (locality == Locality::kUniform) {
                    cells = {fmt::format("{} {}", model, quant),
                             figure(static_cast<double>(scenario.catalog->total_bytes()) / kGiga),
                             figure(bits_a_weight(*scenario.catalog)),
                             figure(scenario.answer.host_bytes / kGiga),
                             runs ? "-" : figure(missing_bytes(scenario) / kGiga),
                             fmt::format("{:.0f}%", 100.0 * experts_resident(scenario))};
                    prefill = runs ? prompt_cell(scenario) : "-";
                }
                cells.push_back(runs ? decode_cell(scenario) : "-");
            }
            cells.push_back(prefill);
            print_row(cells);
            if (quick) {
                return;
            }
        }
    }
}

}  // namespace ballast::test
