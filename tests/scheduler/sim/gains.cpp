// SPDX-License-Identifier: MIT
// Placements come from the planner and its policies, seconds from the simulator alone.
#include "tests/scheduler/sim/gains.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "scheduler/sim/policy_run.h"

namespace ballast::test {

namespace {

using scheduler::CostModel;
using scheduler::GroupKind;
using scheduler::GroupPlacement;
using scheduler::HardwareProfile;
using scheduler::Placement;
using scheduler::Policy;
using scheduler::SimWorkload;
using scheduler::StepShape;
using scheduler::TensorCatalog;
using scheduler::TensorGroup;

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
// Steps until the ring's beat has settled, and until the mean of drawn experts has.
constexpr int kSteps = 9;
constexpr int kStepsDrawn = 257;

std::uint64_t whole(double value) {
    return static_cast<std::uint64_t>(std::llround(value));
}

scheduler::PlanRequest request_of(const GainCase& of) {
    return {.catalog = of.catalog,
            .costs = CostModel(of.hardware),
            .memory_bytes = of.memory_bytes(),
            .reserve = of.reserve(),
            .depth = of.depth,
            .hops = of.hops,
            .locality = of.locality};
}

double simulated_prompt(const GainCase& of,
                        const Placement& placement,
                        const StepShape& shape,
                        bool serial_copies) {
    return scheduler::simulate_steps(of.hardware,
                                     *of.catalog,
                                     placement,
                                     {.shape = shape,
                                      .hops = of.hops,
                                      .locality = of.locality,
                                      .serial_copies = serial_copies})
        .seconds;
}

/// The planner's division for prompts of this length, with so many of their tokens to each of
/// decode.
Placement planned_prefill(const GainCase& of, int tokens, double prefill_weight) {
    scheduler::PlanRequest request = request_of(of);
    request.prefill_tokens = tokens;
    request.prefill_weight = prefill_weight;
    return scheduler::make_plan(request).plan.placement;
}

void simulate_ours(const GainCase& of, PrefillGain& gain) {
    constexpr double kPrompts = 4000.0;
    constexpr double kMix = 4.0;
    const StepShape shape = {.tokens = gain.tokens, .depth = 0};
    const auto seconds = [&](double weight) {
        return simulated_prompt(of, planned_prefill(of, gain.tokens, weight), shape, false);
    };
    gain.prompts = seconds(kPrompts);
    gain.mixed = seconds(kMix);
}

double bytes_of(const TensorGroup& group) {
    const double routed = group.kind == GroupKind::kExperts
                              ? static_cast<double>(group.expert_bytes) * group.parts
                              : 0.0;
    return static_cast<double>(group.weight_bytes) + routed;
}

/// What a prompt copies of the group if all that is not resident crosses.
double copied_bytes(const TensorGroup& group, const GroupPlacement& placed) {
    const double missing = 1.0 - static_cast<double>(placed.resident) / group.parts;
    if (group.kind != GroupKind::kExperts) {
        return missing * static_cast<double>(group.weight_bytes);
    }
    const double routed = static_cast<double>(group.expert_bytes) * group.parts;
    return missing * routed +
           (placed.shared_on_device ? 0.0 : static_cast<double>(group.weight_bytes));
}

/// Of all groups on the device, computing only.
double device_flop_seconds(const GainCase& of, double tokens) {
    double flops = 0.0;
    for (const TensorGroup& group : of.catalog->groups) {
        const double rows = group.kind == GroupKind::kHead ? 1.0 : tokens;
        flops += 2.0 * static_cast<double>(group.weights) * rows;
        flops += 2.0 * group.attention_width * tokens * tokens;
        if (group.kind == GroupKind::kExperts) {
            flops += 2.0 * static_cast<double>(group.expert_weights) * group.experts_used * tokens /
                     of.hardware.expert_prefill_factor;
        }
    }
    return flops / (of.hardware.device_tflops * kTera);
}

/// How many groups of a kind each side computes alone, and how many both.
struct KindCount {
    int device = 0;
    int cpu = 0;
    int both = 0;
    double cpu_bytes = 0.0;
    double streamed_bytes = 0.0;
    double all_bytes = 0.0;

    int all() const { return device + cpu + both; }
};

KindCount count(const TensorCatalog& catalog, const Placement& plan, GroupKind kind) {
    KindCount counted;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const TensorGroup& group = catalog.groups[i];
        if (group.kind != kind) {
            continue;
        }
        const GroupPlacement& placed = plan.groups[i];
        const int on_device = placed.resident + placed.streamed;
        const double part = bytes_of(group) / group.parts;
        counted.all_bytes += bytes_of(group);
        counted.streamed_bytes += part * placed.streamed;
        counted.cpu_bytes += part * (group.parts - on_device);
        ++(on_device == 0 ? counted.cpu : on_device == group.parts ? counted.device : counted.both);
    }
    return counted;
}

std::string describe(const char* name, const KindCount& counted) {
    if (counted.all() == counted.device) {
        return fmt::format("{} device", name);
    }
    if (counted.all() == counted.cpu) {
        return fmt::format("{} CPU", name);
    }
    std::string text = fmt::format("{} split", name);
    if (counted.both != counted.all()) {
        text += fmt::format(" in {} of {}", counted.both, counted.all());
    }
    text += fmt::format(" (CPU {:.0f}%", 100.0 * counted.cpu_bytes / counted.all_bytes);
    if (counted.streamed_bytes > 0.0) {
        text +=
            fmt::format(", streamed {:.1f}%", 100.0 * counted.streamed_bytes / counted.all_bytes);
    }
    return text + ")";
}

scheduler::StepModel decode_model(const GainCase& of) {
    return {*of.catalog,
            CostModel(of.hardware),
            {.shape = {.tokens = 1, .depth = of.depth}, .hops = of.hops, .locality = of.locality}};
}

/// The share of groups before which the residual is usable on the device first.
double owned_by_device(const GainCase& of, const Placement& plan) {
    const scheduler::StepModel model = decode_model(of);
    scheduler::ChainState state = {.device = model.hop_seconds()};
    int n_device = 0;
    for (std::size_t i = 0; i < plan.groups.size(); ++i) {
        n_device += state.device < state.cpu ? 1 : 0;
        state = model.advance(model.cost(of.catalog->groups[i], plan.groups[i]), state);
    }
    return static_cast<double>(n_device) / static_cast<double>(plan.groups.size());
}

}  // namespace

TensorCatalog synthetic_dense(double read_bytes) {
    constexpr double kBytesPerWeight = 4.85 / 8.0;
    constexpr double kHeadBytesPerWeight = 6.5625 / 8.0;  // Q6_K
    constexpr double kVocabulary = 128256.0;
    constexpr double kKvWidth = 8 * 128;
    constexpr double kFeedForward = 3.5;
    TensorCatalog catalog;
    catalog.n_layers =
        std::max(1, static_cast<int>(std::lround(32.0 * std::pow(read_bytes / 4.9e9, 0.45))));
    // Query, output: width²; key, value: width · 1024; gate, up, down: 3.5 · width². The width
    // at which layers and head weigh what they should is the root of a quadratic.
    const double a = catalog.n_layers * kBytesPerWeight * (2.0 + 3.0 * kFeedForward);
    const double b =
        catalog.n_layers * kBytesPerWeight * 2.0 * kKvWidth + kHeadBytesPerWeight * kVocabulary;
    const double width = (std::sqrt(b * b + 4.0 * a * read_bytes) - b) / (2.0 * a);
    catalog.width = static_cast<int>(std::lround(width));
    const double attention = 2.0 * width * width + 2.0 * width * kKvWidth;
    const double feed_forward = 3.0 * kFeedForward * width * width;
    const double head = kVocabulary * width;
    for (int layer = 0; layer < catalog.n_layers; ++layer) {
        catalog.groups.push_back({.kind = GroupKind::kAttention,
                                  .layer = layer,
                                  .parts = 8,
                                  .weight_bytes = whole(attention * kBytesPerWeight),
                                  .weights = whole(attention),
                                  .kv_bytes_per_token = whole(2.0 * 2.0 * kKvWidth),
                                  .attention_width = catalog.width});
        catalog.groups.push_back({.kind = GroupKind::kFeedForward,
                                  .layer = layer,
                                  .parts = static_cast<int>(kFeedForward * width / 256.0),
                                  .weight_bytes = whole(feed_forward * kBytesPerWeight),
                                  .weights = whole(feed_forward)});
    }
    catalog.groups.push_back({.kind = GroupKind::kHead,
                              .parts = static_cast<int>(kVocabulary) / 256,
                              .weight_bytes = whole(head * kHeadBytesPerWeight),
                              .weights = whole(head)});
    catalog.embedding_bytes = whole(head * kBytesPerWeight);
    catalog.name = fmt::format("dense {:.1f} GB", read_bytes / kGiga);
    return catalog;
}

double read_bytes(const TensorCatalog& catalog) {
    double bytes = 0.0;
    for (const TensorGroup& group : catalog.groups) {
        bytes += static_cast<double>(group.weight_bytes) +
                 static_cast<double>(group.expert_bytes) * group.experts_used;
    }
    return bytes;
}

bool holds(const GainCase& of) {
    return static_cast<double>(of.catalog->total_bytes()) <=
           of.memory_bytes() + (of.hardware.ram_gb - 4.0) * kGiga;
}

double simulated_decode(const GainCase& of, const Placement& placement) {
    return scheduler::simulate_steps(of.hardware,
                                     *of.catalog,
                                     placement,
                                     {.shape = {.tokens = 1, .depth = of.depth},
                                      .hops = of.hops,
                                      .locality = of.locality,
                                      .n_steps = of.catalog->has_experts() ? kStepsDrawn : kSteps})
        .seconds;
}

std::optional<PolicyDecode> policy_decode(const GainCase& of, Policy policy) {
    const scheduler::StepModel model = decode_model(of);
    std::optional<PolicyDecode> best;
    for (Placement& placement : scheduler::policy_placements(
             policy, *of.catalog, of.memory_bytes(), of.reserve(), of.hardware.unified_memory)) {
        const double seconds = model.seconds(placement);
        if (!best || seconds < best->seconds) {
            best = {.placement = std::move(placement), .seconds = seconds};
        }
    }
    if (best) {
        best->seconds = simulated_decode(of, best->placement);
    }
    return best;
}

PolicyDecode best_static_decode(const GainCase& of) {
    scheduler::PlanRequest request = request_of(of);
    request.ladder = {.splits = false, .streams = false, .prefill_streams = false};
    PolicyDecode best = {.placement = scheduler::make_plan(request).plan.placement};
    best.seconds = simulated_decode(of, best.placement);
    for (const Policy policy : {Policy::kCpuOnly, Policy::kStatic}) {
        auto other = policy_decode(of, policy);
        if (other && other->seconds < best.seconds) {
            best = std::move(*other);
        }
    }
    return best;
}

PolicyDecode planned_decode(const GainCase& of) {
    PolicyDecode planned = {.placement = scheduler::make_plan(request_of(of)).plan.placement};
    planned.seconds = simulated_decode(of, planned.placement);
    return planned;
}

DecodeGain decode_gain(const GainCase& of) {
    PolicyDecode planned = planned_decode(of);
    const auto layers = policy_decode(of, Policy::kWholeLayers);
    BALLAST_CHECK(layers);
    return {.read_bytes = read_bytes(*of.catalog),
            .ours = planned.seconds,
            .best_static = best_static_decode(of).seconds,
            .whole_layers = layers->seconds,
            .plan = std::move(planned.placement)};
}

DecodeGain best_decode_gain(const HardwareProfile& hardware,
                            scheduler::HopModel hops,
                            const std::vector<double>& sizes) {
    DecodeGain best;
    for (const double size : sizes) {
        const TensorCatalog catalog = synthetic_dense(size * hardware.device_memory_gb * kGiga);
        DecodeGain gain = decode_gain({.hardware = hardware, .catalog = &catalog, .hops = hops});
        if (best.ours == 0.0 || gain.over_static() > best.over_static()) {
            best = std::move(gain);
        }
    }
    return best;
}

std::string plan_kind(const GainCase& of, const Placement& plan) {
    const TensorCatalog& catalog = *of.catalog;
    std::string text = describe("attention", count(catalog, plan, GroupKind::kAttention));
    if (const KindCount ffn = count(catalog, plan, GroupKind::kFeedForward); ffn.all() > 0) {
        text += ", " + describe("FFN", ffn);
    }
    if (const KindCount experts = count(catalog, plan, GroupKind::kExperts); experts.all() > 0) {
        text += ", " + describe("experts", experts);
    }
    text += ", " + describe("head", count(catalog, plan, GroupKind::kHead));
    if (of.hardware.hop_us > 0.0) {
        text += fmt::format("; residual {:.0f}% device", 100.0 * owned_by_device(of, plan));
    }
    return text;
}

int n_joins(const TensorCatalog& catalog, const Placement& plan) {
    int joins = 0;
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const int on_device = plan.groups[i].resident + plan.groups[i].streamed;
        const bool shared_apart = plan.groups[i].shared_on_device;
        joins += (on_device > 0 || shared_apart) && on_device < catalog.groups[i].parts ? 1 : 0;
    }
    return joins;
}

double hide_tokens(const GainCase& of, const Placement& placement) {
    double copied = 0.0;
    for (std::size_t i = 0; i < placement.groups.size(); ++i) {
        copied += copied_bytes(of.catalog->groups[i], placement.groups[i]);
    }
    const double copying = copied / (of.hardware.link_gbps * kGiga);
    double low = 0.0;
    double high = 1e6;
    for (int i = 0; i < 60; ++i) {
        const double middle = 0.5 * (low + high);
        (device_flop_seconds(of, middle) < copying ? low : high) = middle;
    }
    return low;
}

PrefillGain dense_prefill_gain(const GainCase& of, double share_of_hide) {
    const Placement others = best_static_decode(of).placement;
    PrefillGain gain{.hide_tokens = hide_tokens(of, others)};
    gain.tokens = std::max(2, static_cast<int>(std::lround(share_of_hide * gain.hide_tokens)));
    const StepShape shape = {.tokens = gain.tokens, .depth = 0};
    gain.serial = simulated_prompt(of, scheduler::with_copies(*of.catalog, others), shape, true);
    simulate_ours(of, gain);
    return gain;
}

PrefillGain expert_prefill_gain(const GainCase& of, int tokens, int step_tokens) {
    const auto others = policy_decode(of, Policy::kExpertsLast);
    BALLAST_CHECK(others);
    PrefillGain gain{.hide_tokens = hide_tokens(of, others->placement), .tokens = tokens};
    const Placement copied = scheduler::with_copies(*of.catalog, others->placement);
    for (int begin = 0; begin < tokens; begin += step_tokens) {
        const int n = std::min(step_tokens, tokens - begin);
        gain.serial += simulated_prompt(of, copied, {.tokens = n, .depth = begin}, true);
    }
    simulate_ours(of, gain);
    return gain;
}

}  // namespace ballast::test
