// SPDX-License-Identifier: MIT
// Forecast beside measured decode steps: a model on the device "host" and the CPU, both paced to a
// shipped machine scaled down, so that what runs is what the forecast is about. Two placements fit
// the cost model; twenty others are then forecast and run. A report: it judges nothing.
// Usage: step_times MODEL.gguf [MACHINE] [STEPS]
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/base/rng.h"
#include "engine/runtime/compute.h"
#include "engine/runtime/link_probe.h"
#include "engine/runtime/loaded_model.h"
#include "scheduler/placement/planner.h"
#include "scheduler/profile/profile_store.h"
#include "scheduler/tensor_scheduler.h"

namespace ballast {
namespace {

using scheduler::GroupKind;
using scheduler::HardwareProfile;
using scheduler::Placement;

// Slow enough that one thread of any machine keeps the pace, with what it computes beside reading.
constexpr double kDeviceGbps = 3.0;
constexpr auto kLatency = std::chrono::microseconds(20);
constexpr int kPrompt = 64;
constexpr int kContext = 256;
constexpr std::uint64_t kDeviceBytes = 4ULL << 30U;

struct Named {
    std::string name;
    Placement placement;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/// The machine's rates, all in one proportion.
HardwareProfile scaled(HardwareProfile machine) {
    const double factor = kDeviceGbps / machine.device_read_gbps;
    for (double* rate : {&machine.device_read_gbps,
                         &machine.cpu_read_gbps,
                         &machine.link_gbps,
                         &machine.dram_gbps,
                         &machine.device_tflops,
                         &machine.cpu_tflops}) {
        *rate *= factor;
    }
    return machine;
}

backend::HostOptions host_of(const HardwareProfile& machine) {
    return {.memory_bytes = kDeviceBytes,
            .pace = {.read_gbps = machine.device_read_gbps,
                     .gflops = machine.device_tflops * 1e3,
                     .link_gbps = machine.link_gbps,
                     .latency = kLatency}};
}

/// What a hop takes on the paced device, as the profile measures it.
Result<double> measured_hop_us(const HardwareProfile& machine) {
    const SystemClock clock;
    const kernels::KernelTable& kernels = **kernels::choose_kernels("");
    backend::HostBackend device(kernels, clock, host_of(machine));
    runtime::Link link(device, runtime::Link::kPieceBytes);
    for (bool more = true; more;) {
        BALLAST_TRY(more, link.grow());
    }
    BALLAST_TRY(const runtime::Sample hop, runtime::HopProbe(link, clock).sample());
    return hop.seconds * 1e6;
}

class Report {
  public:
    Report(const model::Model& model, HardwareProfile machine, int n_steps)
        : model_(model), machine_(std::move(machine)), n_steps_(n_steps) {}

    Status run() {
        BALLAST_TRY(const auto cpu, make_compute(scheduler::cpu_only(model_.catalog())));
        catalog_ = cpu->catalog();
        learnt_ = std::make_unique<scheduler::TensorScheduler>(
            scheduler::SchedulerSetup{.catalog = catalog_,
                                      .hardware = machine_,
                                      .device_bytes = static_cast<double>(kDeviceBytes),
                                      .reserve = {.tokens = kContext},
                                      .context = kContext},
            clock_);
        BALLAST_TRY_STATUS(fit());
        fmt::print("{:<26}{:>7}{:>11}{:>10}{:>9}{:>10}{:>9}\n",
                   "placement",
                   "device",
                   "measured",
                   "forecast",
                   "",
                   "fitted",
                   "");
        fmt::print("{:<26}{:>7}{:>11}{:>10}{:>9}{:>10}{:>9}\n",
                   "",
                   "groups",
                   "ms",
                   "ms",
                   "ratio",
                   "ms",
                   "ratio");
        for (const auto& all : {placements(), divided()}) {
            errors_.clear();
            fitted_errors_.clear();
            for (const Named& named : all) {
                BALLAST_TRY_STATUS(compare(named));
            }
            print_errors("forecast", errors_);
            print_errors("fitted", fitted_errors_);
            fmt::print("\n");
        }
        return {};
    }

  private:
    Result<std::unique_ptr<runtime::Compute>> make_compute(const Placement& placement) const {
        runtime::ComputeShape shape{.sequences = 1,
                                    .context = kContext,
                                    .rows = kPrompt,
                                    .outputs = 1,
                                    .host = host_of(machine_),
                                    .cpu_pace = {.read_gbps = machine_.cpu_read_gbps,
                                                 .gflops = machine_.cpu_tflops * 1e3,
                                                 .dram_gbps = machine_.dram_gbps},
                                    .unchecked = true};
        shape.plan = std::make_shared<const scheduler::Plan>(
            scheduler::Plan{.version = 1, .placement = placement});
        return runtime::Compute::create(
            model_, {.threads = 1, .device = "host", .vram_budget = kDeviceBytes}, shape);
    }

    /// Decodes and gives the median time of a step; tells `note` of each.
    template <class Note>
    Result<double> decode(const Placement& placement, const Note& note) const {
        BALLAST_TRY(const auto compute, make_compute(placement));
        cache::BlockTable table(compute->blocks(), compute->blocks_per_sequence());
        BALLAST_TRY_STATUS(table.grow(kPrompt + n_steps_));
        std::vector<double> times;
        for (int step = 0; step <= n_steps_; ++step) {
            const bool prompt = step == 0;
            const std::vector<TokenId> tokens(prompt ? kPrompt : 1, 1);
            const backend::SequenceRows rows{.n_rows = static_cast<int>(tokens.size()),
                                             .first_position = prompt ? 0 : kPrompt + step - 1,
                                             .blocks = table.blocks()};
            const std::int32_t last = static_cast<std::int32_t>(tokens.size()) - 1;
            const Nanoseconds begin = clock_.now();
            BALLAST_TRY_STATUS(compute->executor().run({.tokens = tokens,
                                                        .sequences = {&rows, 1},
                                                        .n_decode_rows = prompt ? 0 : 1,
                                                        .output_rows = {&last, 1}}));
            if (!prompt) {
                times.push_back(to_seconds(clock_.now() - begin));
                note(kPrompt + step - 1, times.back(), compute->executor().op_times());
            }
        }
        return median(times);
    }

    /// Attention on one side and the rest on the other, and the reverse: each kind on each side.
    /// Learns as a server does, which tells its scheduler of each step.
    Status fit() {
        for (const bool attention : {true, false}) {
            Placement placement = scheduler::cpu_only(catalog_);
            for (std::size_t i = 0; i < catalog_.groups.size(); ++i) {
                if ((catalog_.groups[i].kind == GroupKind::kAttention) == attention) {
                    put_on_device(placement, i);
                }
            }
            std::vector<scheduler::GroupTime> groups;
            const auto learn =
                [&](int depth, double seconds, std::span<const runtime::OpTime> times) {
                    runtime::group_times(times, groups);
                    learnt_->observe_decode(depth, seconds, groups);
                };
            BALLAST_TRY_STATUS(decode(placement, learn));
        }
        return {};
    }

    void put_on_device(Placement& placement, std::size_t group) const {
        placement.groups[group] = scheduler::all_resident(catalog_.groups[group]);
    }

    /// Twenty that were not used for fitting.
    std::vector<Named> placements() const {
        const std::size_t n = catalog_.groups.size();
        std::vector<Named> all = {{"all on the CPU", scheduler::cpu_only(catalog_)}};
        const auto add = [&](std::string name, const auto& on_device) {
            Named named{std::move(name), scheduler::cpu_only(catalog_)};
            for (std::size_t i = 0; i < n; ++i) {
                if (on_device(i)) {
                    put_on_device(named.placement, i);
                }
            }
            all.push_back(std::move(named));
        };
        add("all on the device", [](std::size_t) { return true; });
        for (const std::size_t quarter : {1, 2, 3}) {
            add(fmt::format("last {}/4", quarter),
                [&](std::size_t i) { return 4 * i >= (4 - quarter) * n; });
            add(fmt::format("first {}/4", quarter),
                [&](std::size_t i) { return 4 * i < quarter * n; });
        }
        add("every second layer", [&](std::size_t i) { return catalog_.groups[i].layer % 2 == 0; });
        add("every third layer", [&](std::size_t i) { return catalog_.groups[i].layer % 3 == 0; });
        for (std::uint64_t seed = 1; seed <= 6; ++seed) {
            Rng rng(seed);
            const double share = rng.uniform();
            std::vector<bool> drawn(n);
            for (std::size_t i = 0; i < n; ++i) {
                drawn[i] = rng.uniform() < share;
            }
            add(fmt::format("random, seed {}", seed), [&](std::size_t i) { return drawn[i]; });
        }
        for (const int percent : {25, 50, 75, 90}) {
            all.push_back({fmt::format("whole, for {}% of it", percent), planned(percent, false)});
        }
        return all;
    }

    /// Twenty that divide groups and stream.
    std::vector<Named> divided() const {
        std::vector<Named> all;
        for (const int percent : {10, 20, 30, 40, 50, 60, 70, 80, 90, 95}) {
            all.push_back({fmt::format("planned for {}% of it", percent), planned(percent, true)});
        }
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
            Rng rng(seed);
            Named named{fmt::format("random, seed {}", seed), scheduler::cpu_only(catalog_)};
            const auto below = [&](int n) {
                return static_cast<int>(rng.below(static_cast<std::uint64_t>(n)));
            };
            // Layers are alike, as they are in plans.
            std::array<scheduler::GroupPlacement, 3> kinds;
            std::array<bool, 3> drawn = {};
            for (std::size_t i = 0; i < catalog_.groups.size(); ++i) {
                const scheduler::TensorGroup& group = catalog_.groups[i];
                const std::size_t kind = group.kind == GroupKind::kAttention     ? 0
                                         : group.kind == GroupKind::kFeedForward ? 1
                                                                                 : 2;
                scheduler::GroupPlacement& placed = kinds[kind];
                if (!drawn[kind]) {
                    drawn[kind] = true;
                    placed.resident = below(group.parts + 1);
                    placed.streamed = below((group.parts - placed.resident) / 4 + 1);
                }
                named.placement.groups[i] = placed;
            }
            all.push_back(std::move(named));
        }
        return all;
    }

    Placement planned(int percent, bool divides) const {
        const scheduler::KvReserve reserve{.tokens = kContext};
        const auto whole = static_cast<double>(catalog_.total_bytes());
        return scheduler::make_plan(
                   {.catalog = &catalog_,
                    .costs = scheduler::CostModel(machine_),
                    .memory_bytes = whole * percent / 100.0,
                    .reserve = reserve,
                    .depth = kPrompt,
                    .ladder = {.splits = divides, .streams = divides, .prefill_streams = false}})
            .plan.placement;
    }

    double forecast(const scheduler::CostModel& costs, const Placement& placement) const {
        const int depth = kPrompt + n_steps_ / 2;
        return scheduler::StepModel(catalog_, costs, {.shape = {.tokens = 1, .depth = depth}})
            .seconds(placement);
    }

    Status compare(const Named& named) {
        const auto nothing = [](int, double, std::span<const runtime::OpTime>) {};
        BALLAST_TRY(const double measured, decode(named.placement, nothing));
        const double plain = forecast(scheduler::CostModel(machine_), named.placement);
        const double fitted = forecast(*learnt_->costs(), named.placement);
        const auto n_on_device = std::count_if(
            named.placement.groups.begin(), named.placement.groups.end(), [](const auto& placed) {
                return placed.resident + placed.streamed > 0;
            });
        fmt::print("{:<26}{:>7}{:>11.2f}{:>10.2f}{:>9.3f}{:>10.2f}{:>9.3f}\n",
                   named.name,
                   n_on_device,
                   1e3 * measured,
                   1e3 * plain,
                   plain / measured,
                   1e3 * fitted,
                   fitted / measured);
        errors_.push_back(std::abs(plain / measured - 1.0));
        fitted_errors_.push_back(std::abs(fitted / measured - 1.0));
        return {};
    }

    static void print_errors(const char* name, const std::vector<double>& errors) {
        fmt::print("{}: off by {:.1f}% (median), {:.1f}% at most, of {} placements\n",
                   name,
                   100.0 * median(errors),
                   100.0 * *std::max_element(errors.begin(), errors.end()),
                   errors.size());
    }

    const model::Model& model_;
    HardwareProfile machine_;
    SystemClock clock_;
    scheduler::TensorCatalog catalog_;
    std::unique_ptr<scheduler::TensorScheduler> learnt_;
    int n_steps_;
    std::vector<double> errors_;
    std::vector<double> fitted_errors_;
};

Status run(const std::string& path, const std::string& machine_name, int n_steps) {
    BALLAST_TRY(const runtime::LoadedModel loaded, runtime::load_model(path, ""));
    BALLAST_TRY(const HardwareProfile shipped, scheduler::stored_hardware(machine_name));
    HardwareProfile machine = scaled(shipped);
    machine.device_memory_gb = static_cast<double>(kDeviceBytes) * 1e-9;
    BALLAST_TRY(machine.hop_us, measured_hop_us(machine));
    fmt::print(
        "{} at {:.3g} of its speed: device {:.2f}, CPU {:.2f}, link {:.2f}, both {:.2f} "
        "GB/s; a hop was measured to take {:.0f} us; {} decode steps\n\n",
        machine_name,
        machine.device_read_gbps / shipped.device_read_gbps,
        machine.device_read_gbps,
        machine.cpu_read_gbps,
        machine.link_gbps,
        machine.dram_gbps,
        machine.hop_us,
        n_steps);
    return Report(*loaded.model, machine, n_steps).run();
}

}  // namespace
}  // namespace ballast

int main(int argc, char** argv) {
    const int n_steps = argc > 3 ? std::atoi(argv[3]) : 20;
    if (argc < 2 || n_steps < 1 || n_steps > 150) {
        fmt::print(stderr, "usage: step_times MODEL.gguf [MACHINE] [STEPS, 1 to 150]\n");
        return 2;
    }
    if (!std::ifstream(argv[1]).good()) {
        fmt::print("SKIPPED: {} is not there\n", argv[1]);
        return 77;
    }
    const auto status = ballast::run(argv[1], argc > 2 ? argv[2] : "laptop-4060", n_steps);
    if (!status) {
        fmt::print(stderr, "step_times: {}\n", status.error().message);
        return 1;
    }
    return 0;
}
