// SPDX-License-Identifier: MIT
// Time of the planner and of the control loop: a cold plan of every shipped model and of models of
// many groups, a warm one, the whole answer of `ballast plan`, and what a step costs.
//   planner_bench --benchmark_filter=cold
#include <string>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "engine/base/clock.h"
#include "scheduler/placement/plan_answer.h"
#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"
#include "scheduler/tensor_scheduler.h"

namespace ballast::scheduler {
namespace {

constexpr int kContext = 4096;

struct Mix {
    double prefill;
    double decode;
};
constexpr Mix kMixes[] = {{0, 1}, {4, 1}};

/// `n` groups of 8 types, a full-size model's bytes between them: attention and feed-forward of
/// three sizes each, experts, and a head.
TensorCatalog many_groups(int n) {
    TensorCatalog catalog = {
        .name = fmt::format("{} groups", n), .width = 4096, .context_length = kContext};
    const auto bytes_of_one = static_cast<std::uint64_t>(16e9 / n);
    for (int i = 0; i + 1 < n; ++i) {
        const int type = i % 2 == 0 ? (i / 2) % 3 : (i / 2) % 4;
        const std::uint64_t bytes = bytes_of_one * static_cast<std::uint64_t>(2 + type) / 3;
        TensorGroup group = {
            .layer = i / 2, .parts = 8, .weight_bytes = bytes, .weights = 16 * bytes / 9};
        if (i % 2 == 0) {
            group.kind = GroupKind::kAttention;
            group.kv_bytes_per_token = 4096;
            group.attention_width = 4096;
        } else if (type < 3) {
            group.kind = GroupKind::kFeedForward;
            group.parts = 56;
        } else {
            group.kind = GroupKind::kExperts;
            group.parts = 32;
            group.experts_used = 4;
            group.expert_bytes = bytes / 16;
            group.expert_weights = bytes / 9;
        }
        catalog.groups.push_back(group);
    }
    catalog.groups.push_back({.kind = GroupKind::kHead,
                              .parts = 64,
                              .weight_bytes = 400'000'000,
                              .weights = 500'000'000});
    return catalog;
}

/// A model whose experts alone are 100,000 units: each of 512 experts a layer has a slice of three
/// stacked tensors.
ModelShape many_units() {
    constexpr int kLayers = 66;
    constexpr int kFullAttentionEvery = 4;
    ModelShape shape = *stored_model("qwen3-next-80b-a3b");
    shape.layers = kLayers;
    shape.experts->in_layer.assign(kLayers, true);
    shape.attention.windowed.clear();
    shape.linear_attention->in_layer.clear();
    for (int layer = 0; layer < kLayers; ++layer) {
        shape.linear_attention->in_layer.push_back((layer + 1) % kFullAttentionEvery != 0);
    }
    return shape;
}

int units_of_experts(const TensorCatalog& catalog) {
    int units = 0;
    for (const TensorGroup& group : catalog.groups) {
        units += group.kind == GroupKind::kExperts ? 3 * group.parts : 0;
    }
    return units;
}

PlanRequest request_of(const TensorCatalog& catalog, const HardwareProfile& hardware, Mix mix) {
    return {.catalog = &catalog,
            .costs = CostModel(hardware),
            .memory_bytes = 1e9 * hardware.device_memory_gb,
            .reserve = {.tokens = kContext, .unified_memory = hardware.unified_memory},
            .depth = kContext / 2,
            .prefill_tokens = kContext / 2,
            .prefill_weight = mix.prefill,
            .decode_weight = mix.decode};
}

void note(benchmark::State& state, const TensorCatalog& catalog, const PlanResult& result) {
    state.counters["groups"] = static_cast<double>(catalog.groups.size());
    state.counters["chains"] = result.n_chains;
    state.counters["gap_percent"] = 100.0 * result.gap;
}

void cold(benchmark::State& state,
          const TensorCatalog& catalog,
          const HardwareProfile& hardware,
          Mix mix) {
    const PlanRequest request = request_of(catalog, hardware, mix);
    PlanResult result;
    for ([[maybe_unused]] auto _ : state) {
        result = make_plan(request);
        benchmark::DoNotOptimize(result);
    }
    note(state, catalog, result);
}

/// The same from the model's dimensions: every tensor's rows and experts are put into groups first.
void cold_from_units(benchmark::State& state,
                     const ModelShape& shape,
                     const HardwareProfile& hardware,
                     Mix mix) {
    PlanResult result;
    TensorCatalog catalog;
    for ([[maybe_unused]] auto _ : state) {
        catalog = *catalog_of(shape, "");
        result = make_plan(request_of(catalog, hardware, mix));
        benchmark::DoNotOptimize(result);
    }
    note(state, catalog, result);
    state.counters["units"] = units_of_experts(catalog);
}

/// A plan for other budgets in turn, after one for this: a Replanner's.
void warm(benchmark::State& state,
          const TensorCatalog& catalog,
          const HardwareProfile& hardware,
          Mix mix) {
    const PlanRequest request = request_of(catalog, hardware, mix);
    Replanner replanner(request);
    PlanResult result = replanner.plan();
    double share = 1.0;
    for ([[maybe_unused]] auto _ : state) {
        share = share > 0.5 ? share - 0.05 : 1.0;
        result = replanner.replan(share * request.memory_bytes);
        benchmark::DoNotOptimize(result);
    }
    note(state, catalog, result);
}

void whole_answer(benchmark::State& state,
                  const TensorCatalog& catalog,
                  const HardwareProfile& hardware) {
    const PlanQuestion question = {.catalog = &catalog, .hardware = hardware, .context = kContext};
    for ([[maybe_unused]] auto _ : state) {
        benchmark::DoNotOptimize(answer(question));
    }
}

/// A step's times of one run a group, or of one run of all groups of the CPU.
void observe(benchmark::State& state,
             const TensorCatalog& catalog,
             const HardwareProfile& hardware,
             bool run_of_all) {
    const SystemClock clock;
    TensorScheduler scheduler({.catalog = catalog, .hardware = hardware, .context = kContext},
                              clock);
    const int n = static_cast<int>(catalog.groups.size());
    std::vector<GroupTime> times;
    for (int i = 0; i < (run_of_all ? 1 : n); ++i) {
        times.push_back({.first_group = i, .n_groups = run_of_all ? n : 1, .seconds = 0.4 / n});
    }
    int depth = 0;
    for ([[maybe_unused]] auto _ : state) {
        scheduler.observe_decode(depth, 0.5, times);
        depth = (depth + 1) % kContext;
    }
    state.counters["groups"] = n;
}

template <class Function>
void add(const std::string& name, benchmark::TimeUnit unit, Function function) {
    benchmark::RegisterBenchmark(name.c_str(), std::move(function))->Unit(unit);
}

void add_model(const TensorCatalog& catalog,
               const std::string& machine,
               const HardwareProfile& hardware) {
    for (const Mix mix : kMixes) {
        const std::string name =
            fmt::format("{}/{}/{}:{}", catalog.name, machine, mix.prefill, mix.decode);
        add("cold/" + name, benchmark::kMillisecond, [=](benchmark::State& state) {
            cold(state, catalog, hardware, mix);
        });
        add("warm/" + name, benchmark::kMillisecond, [=](benchmark::State& state) {
            warm(state, catalog, hardware, mix);
        });
    }
    add(fmt::format("answer/{}/{}", catalog.name, machine),
        benchmark::kMillisecond,
        [=](benchmark::State& state) { whole_answer(state, catalog, hardware); });
}

void add_all() {
    for (const char* machine : {"laptop-4060", "desktop-4090"}) {
        const HardwareProfile hardware = *stored_hardware(machine);
        for (const std::string& model : stored_model_names()) {
            TensorCatalog catalog = *catalog_of(*stored_model(model), "");
            catalog.name = model;
            add_model(catalog, machine, hardware);
        }
        for (const Mix mix : kMixes) {
            add(fmt::format("cold/units/{}/{}:{}", machine, mix.prefill, mix.decode),
                benchmark::kMillisecond,
                [=](benchmark::State& state) {
                    cold_from_units(state, many_units(), hardware, mix);
                });
        }
        for (const int n : {1000, 10'000}) {
            add_model(many_groups(n), machine, hardware);
        }
    }
    const HardwareProfile hardware = *stored_hardware("laptop-4060");
    for (const int n : {330, 10'000}) {
        for (const bool run_of_all : {false, true}) {
            add(fmt::format("observe/{} groups/{}", n, run_of_all ? "one run" : "a run a group"),
                benchmark::kMicrosecond,
                [=](benchmark::State& state) {
                    observe(state, many_groups(n), hardware, run_of_all);
                });
        }
    }
}

}  // namespace
}  // namespace ballast::scheduler

int main(int argc, char** argv) {
    ballast::scheduler::add_all();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 1;
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
