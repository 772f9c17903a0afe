// SPDX-License-Identifier: MIT
// The questions about machines: the link, the vendor, a busy CPU, and how slow a GPU may be.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "engine/base/clock.h"
#include "scheduler/tensor_scheduler.h"
#include "tests/bench/sim_questions.h"

namespace ballast::test {

using scheduler::HardwareProfile;
using scheduler::Placement;
using scheduler::SimPolicy;

namespace {

constexpr double kGiga = 1e9;

std::string percent(double share) {
    return fmt::format("{:.0f}%", 100.0 * share);
}

}  // namespace

void ask_link(bool quick) {
    struct Link {
        const char* name;
        double gbps;
        double hop_us;  // 0: the machine's own
    };
    // Pinned host-to-device copies: x16 as published measurements have it, x8 by ratio, Thunderbolt
    // and its hop assumed.
    constexpr std::array<Link, 5> kLinks = {{{"Thunderbolt 4", 2.8, 0},
                                             {"Thunderbolt 4, slow hops", 2.8, 100},
                                             {"PCIe 3.0 x16", 12.3, 0},
                                             {"PCIe 4.0 x8", 12.5, 0},
                                             {"PCIe 4.0 x16", 24.5, 0}}};
    const std::array<const char*, 3> models = {"qwen3-14b", "qwen3-32b", "qwen3-30b-a3b"};
    std::vector<std::string> columns = {"link", "GB/s", "hop us"};
    for (const char* model : models) {
        columns.push_back(fmt::format("{}: decode tokens/s (gain)", model));
        columns.emplace_back("prefill tokens/s (gain)");
    }
    print_head(columns);
    for (const Link& link : kLinks) {
        std::vector<std::string> cells;
        for (const char* model : models) {
            Scenario scenario = shipped_scenario(model, "laptop-4060");
            HardwareProfile& hardware = scenario.question.hardware;
            hardware.link_gbps = link.gbps;
            hardware.hop_us = link.hop_us > 0.0 ? link.hop_us : hardware.hop_us;
            run_question(scenario);
            if (cells.empty()) {
                cells = {link.name, figure(link.gbps), fmt::format("{}", hardware.hop_us)};
            }
            cells.push_back(decode_cell(scenario));
            cells.push_back(prompt_cell(scenario));
        }
        print_row(cells);
        if (quick) {
            return;
        }
    }
}

void ask_vendors(bool quick) {
    struct Machine {
        const char* name;
        const char* vendor;
        const char* middle;  // the middle model: as large as is of interest there
    };
    constexpr std::array<Machine, 14> kMachines = {
        {{"laptop-4060", "NVIDIA", "qwen3-14b"},
         {"laptop-3060", "NVIDIA", "qwen3-14b"},
         {"desktop-4070", "NVIDIA", "qwen3-32b"},
         {"desktop-4090", "NVIDIA", "qwen3-32b"},
         {"desktop-5090", "NVIDIA", "qwen3-32b"},
         {"egpu-4060ti", "NVIDIA", "qwen3-32b"},
         {"desktop-7900xtx", "AMD", "qwen3-32b"},
         {"apu-780m", "AMD, unified", "qwen3-14b"},
         {"strix-halo", "AMD, unified", "qwen3-32b"},
         {"desktop-a770", "Intel", "qwen3-32b"},
         {"apple-m2", "Apple, unified", "qwen3-14b"},
         {"apple-m3-pro", "Apple, unified", "qwen3-32b"},
         {"apple-m3-max", "Apple, unified", "qwen3-32b"},
         {"apple-m4-max", "Apple, unified", "qwen3-32b"}}};
    print_head({"machine",
                "vendor",
                "llama-3.1-8b: plan, decode tokens/s (gain), of the limit",
                "14B or 32B",
                "the same of it",
                "the same of qwen3-30b-a3b"});
    for (const Machine& machine : kMachines) {
        const auto cell = [&](const char* model) {
            Scenario scenario = shipped_scenario(model, machine.name);
            run_question(scenario);
            const char* verdict = scheduler::verdict_name(scenario.answer.verdict);
            if (scenario.runs.empty()) {
                return std::string(verdict);
            }
            return fmt::format(
                "{}, {}, {}",
                verdict,
                decode_cell(scenario),
                percent(scenario.answer.decode_limit_seconds / ours(scenario, decode_seconds)));
        };
        print_row({machine.name,
                   machine.vendor,
                   cell("llama-3.1-8b"),
                   std::string(machine.middle).substr(6),
                   cell(machine.middle),
                   cell("qwen3-30b-a3b")});
        if (quick) {
            return;
        }
    }
}

namespace {

/// What part of a machine a search makes worse.
enum class Figure { kReadRate, kMemory, kBoth, kHop };

void scale(HardwareProfile& hardware, Figure what, double by) {
    if (what == Figure::kReadRate || what == Figure::kBoth) {
        hardware.device_read_gbps *= by;
    }
    if (what == Figure::kMemory || what == Figure::kBoth) {
        hardware.device_memory_gb *= by;
    }
    if (what == Figure::kHop) {
        hardware.hop_us /= by;
    }
}

/// A GPU is worth nothing if the fastest plan with it is not even this much faster. (The planner's
/// least share of dense groups for a device is 1/32, the next 1/16: little more is between.)
constexpr double kWorthLess = 1.02;

struct BreakEven {
    /// The first of eight machines an octave that is worth nothing.
    std::optional<HardwareProfile> hardware = {};
    HardwareProfile worst = {};  // that was looked at
    bool is_sharp = true;        // what is worse than `hardware` is worth no more
};

/// Of the fastest plan: one of whole groups that is almost as fast would hide what is gained.
double gain_over_cpu(Scenario& scenario) {
    scenario.answer = scheduler::answer(scenario.question);
    scheduler::PlanRequest request = plan_request(scenario.question, scenario.answer);
    request.simple_within = 0.0;
    scenario.answer.result = scheduler::make_plan(request);
    scenario.runs = scheduler::run_policies(
        scenario.question, scenario.answer, {SimPolicy::kCpuOnly, SimPolicy::kOurs});
    return least(scenario, {SimPolicy::kCpuOnly}, decode_seconds) / ours(scenario, decode_seconds);
}

BreakEven break_even(const char* model, const char* machine, Figure what, bool quick) {
    constexpr int kOctaves = 10;
    constexpr int kStepsAnOctave = 8;
    Scenario scenario = shipped_scenario(model, machine);
    scenario.question.prefill_weight = 0.0;
    const HardwareProfile full = scenario.question.hardware;
    BreakEven found;
    for (int step = 0; step <= (quick ? 1 : kOctaves * kStepsAnOctave); ++step) {
        HardwareProfile& hardware = scenario.question.hardware;
        hardware = full;
        scale(hardware, what, std::exp2(-static_cast<double>(step) / kStepsAnOctave));
        const bool is_worth_less = gain_over_cpu(scenario) < kWorthLess;
        if (is_worth_less && !found.hardware) {
            found.hardware = hardware;
        }
        found.is_sharp = found.is_sharp && (is_worth_less || !found.hardware);
        found.worst = hardware;
    }
    return found;
}

}  // namespace

void ask_break_even(bool quick) {
    struct Pair {
        const char* model;
        const char* machine;
    };
    constexpr std::array<Pair, 6> kPairs = {{{"llama-3.1-8b", "laptop-4060"},
                                             {"qwen3-14b", "laptop-4060"},
                                             {"qwen3-30b-a3b", "laptop-4060"},
                                             {"llama-3.1-8b", "desktop-3060-gen4"},
                                             {"qwen3-32b", "desktop-3060-gen4"},
                                             {"qwen3-30b-a3b", "desktop-3060-gen4"}}};
    print_head({"CPU GB/s (of)",
                "model",
                "CPU alone tokens/s",
                "whole GPU: gain",
                "read rate GB/s",
                "memory GB",
                "both by",
                "hop ms"});
    for (const Pair& pair : kPairs) {
        Scenario scenario = shipped_scenario(pair.model, pair.machine);
        scenario.question.prefill_weight = 0.0;
        const double gain = gain_over_cpu(scenario);
        const HardwareProfile& full = scenario.question.hardware;
        const auto cell = [&](Figure what, double (*value)(const HardwareProfile&), double of) {
            const BreakEven found = break_even(pair.model, pair.machine, what, quick);
            if (!found.hardware) {
                return fmt::format("not at {}", figure(value(found.worst) / of));
            }
            return figure(value(*found.hardware) / of) + (found.is_sharp ? "" : " (not sharp)");
        };
        const auto read_rate = [](const HardwareProfile& h) { return h.device_read_gbps; };
        print_row(
            {fmt::format("{} ({})", full.cpu_read_gbps, pair.machine),
             pair.model,
             figure(1.0 / least(scenario, {SimPolicy::kCpuOnly}, decode_seconds)),
             figure(gain),
             cell(Figure::kReadRate, read_rate, 1.0),
             cell(
                 Figure::kMemory, [](const HardwareProfile& h) { return h.device_memory_gb; }, 1),
             cell(Figure::kBoth, read_rate, full.device_read_gbps),
             cell(
                 Figure::kHop, [](const HardwareProfile& h) { return h.hop_us; }, 1000.0)});
        if (quick) {
            return;
        }
    }
}

namespace {

/// What a load leaves of the CPU; one that also reads takes as much of the memory.
HardwareProfile loaded(HardwareProfile hardware, double load, bool reads) {
    if (reads) {
        hardware.dram_gbps -= load * hardware.cpu_read_gbps;
    }
    hardware.cpu_read_gbps *= 1.0 - load;
    hardware.cpu_tflops *= 1.0 - load;
    return hardware;
}

/// Bytes resident in `to` and not in `from`.
double bytes_to_upload(const Scenario& scenario, const Placement& from, const Placement& to) {
    double bytes = 0.0;
    for (std::size_t i = 0; i < to.groups.size(); ++i) {
        const scheduler::TensorGroup& group = scenario.catalog->groups[i];
        const int more = std::max(0, to.groups[i].resident - from.groups[i].resident);
        const bool experts = group.kind == scheduler::GroupKind::kExperts;
        bytes += experts ? static_cast<double>(group.expert_bytes) * more
                         : static_cast<double>(group.weight_bytes) * more / group.parts;
        if (experts && to.groups[i].shared_on_device && !from.groups[i].shared_on_device) {
            bytes += static_cast<double>(group.weight_bytes);
        }
    }
    return bytes;
}

double simulated_decode(const Scenario& scenario,
                        const HardwareProfile& hardware,
                        const Placement& placement) {
    return scheduler::simulate_steps(hardware,
                                     *scenario.catalog,
                                     placement,
                                     {.shape = {.tokens = 1, .depth = scenario.answer.depth},
                                      .hops = scenario.question.hops,
                                      .locality = scenario.question.locality,
                                      .n_steps = scenario.catalog->has_experts() ? 65 : 9})
        .seconds;
}

/// Least seconds of a call on this machine, whatever else runs there.
template <class Function>
double measured_seconds(const Function& function) {
    constexpr int kTimes = 10;
    const SystemClock clock;
    double seconds = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kTimes; ++i) {
        const Nanoseconds before = clock.now();
        function();
        seconds = std::min(seconds, to_seconds(clock.now() - before));
    }
    return seconds;
}

/// What the cost model's correction takes a step, every group of its own run.
double observe_seconds(const Scenario& scenario) {
    constexpr int kSteps = 500;
    const SystemClock clock;
    scheduler::TensorScheduler tensors({.catalog = *scenario.catalog,
                                        .hardware = scenario.question.hardware,
                                        .context = scenario.question.context},
                                       clock);
    const auto n = static_cast<int>(scenario.catalog->groups.size());
    std::vector<scheduler::GroupTime> times;
    for (int i = 0; i < n; ++i) {
        times.push_back({.first_group = i, .n_groups = 1, .seconds = 0.4 / n});
    }
    return measured_seconds([&] {
               for (int i = 0; i < kSteps; ++i) {
                   tensors.observe_decode(i, 0.5, times);
               }
           }) /
           kSteps;
}

struct Load {
    double share;
    bool reads = false;
};

/// One model under one load: planned again, the plan for an idle CPU, and static layers.
std::vector<std::string> load_cells(const Scenario& idle, const Load& load, double observing) {
    // How long the load stays; both planning and moving count as if nothing else went on.
    constexpr double kLevelSeconds = 30.0;
    const HardwareProfile hardware = loaded(idle.question.hardware, load.share, load.reads);
    scheduler::PlanRequest request = plan_request(idle.question, idle.answer);
    request.costs = scheduler::CostModel(hardware);
    const Placement& kept = idle.answer.result.plan.placement;
    const Placement planned = scheduler::make_plan(request).plan.placement;
    const double planning = measured_seconds([&] { scheduler::make_plan(request); });
    const double left = 1.0 - load.share;
    const double moving = bytes_to_upload(idle, kept, planned) / (hardware.link_gbps * kGiga);
    const double step = simulated_decode(idle, hardware, planned);
    const double usable = kLevelSeconds - planning / left - moving;
    const double tokens = usable / (step + observing / left);
    double fixed = std::numeric_limits<double>::infinity();
    for (const SimPolicy policy : {SimPolicy::kWholeLayers, SimPolicy::kExpertsLast}) {
        if (const scheduler::PolicyRun* run = find_run(idle, policy)) {
            fixed = std::min(fixed, simulated_decode(idle, hardware, run->placement));
        }
    }
    const double limit = scheduler::step_bound_seconds(hardware,
                                                       *idle.catalog,
                                                       {.tokens = 1, .depth = idle.answer.depth},
                                                       idle.question.locality,
                                                       idle.answer.memory_bytes);
    return {
        fmt::format("{} ({})", figure(1.0 / step), percent(limit / step)),
        figure(tokens / kLevelSeconds),
        figure(1.0 / simulated_decode(idle, hardware, kept)),
        figure(1.0 / fixed),
        fmt::format(
            "{:.1f}; {:.0f}; {:.0f}", 1e3 * planning / left, 1e6 * observing / left, 1e3 * moving)};
}

}  // namespace

void ask_load(bool quick) {
    constexpr std::array<Load, 9> kLoads = {
        {{0.0}, {0.2}, {0.4}, {0.6}, {0.8}, {0.9}, {0.95}, {0.99}, {0.6, true}}};
    const std::array<const char*, 2> models = {"qwen3-14b", "qwen3-30b-a3b"};
    std::vector<Scenario> idle;
    std::vector<double> observing;
    std::vector<std::string> columns = {"CPU load"};
    for (const char* model : models) {
        idle.push_back(shipped_scenario(model, "laptop-4060"));
        idle.back().question.prefill_weight = 0.0;
        run_question(idle.back());
        observing.push_back(observe_seconds(idle.back()));
        columns.push_back(fmt::format("{}: planned again, tokens/s (of the limit)", model));
        for (const char* column :
             {"all costs counted", "idle plan kept", "static", "plan ms; observe us; move ms"}) {
            columns.emplace_back(column);
        }
    }
    print_head(columns);
    for (const Load& load : kLoads) {
        std::vector<std::string> cells = {percent(load.share) +
                                          (load.reads ? ", which also reads" : "")};
        for (std::size_t i = 0; i < idle.size(); ++i) {
            for (std::string& cell : load_cells(idle[i], load, observing[i])) {
                cells.push_back(std::move(cell));
            }
        }
        print_row(cells);
        if (quick) {
            return;
        }
    }
}

}  // namespace ballast::test
