// SPDX-License-Identifier: MIT
// Models and machines that nobody has: whatever a file or a profile says, there is an answer, its
// figures are numbers, and the plan fits.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scheduler/placement/plan_answer.h"
#include "tests/scheduler/placement/plan_quality.h"
#include "tests/support/sanitizer.h"

namespace ballast::test {
namespace {

using scheduler::GroupKind;
using scheduler::HardwareProfile;
using scheduler::PlanAnswer;
using scheduler::PlanQuestion;
using scheduler::TensorCatalog;
using scheduler::TensorGroup;

double between_log(Rng& rng, double low, double high) {
    return low * std::pow(high / low, rng.uniform());
}

int below(Rng& rng, int n) {
    return static_cast<int>(rng.below(static_cast<std::uint64_t>(n)));
}

/// Nothing, next to nothing, or up to a petabyte.
std::uint64_t hostile_bytes(Rng& rng) {
    switch (below(rng, 8)) {
        case 0:
            return 0;
        case 1:
            return 1;
        case 2:
            return 1'000'000'000'000'000;
        default:
            return static_cast<std::uint64_t>(between_log(rng, 1e3, 1e10));
    }
}

int hostile_parts(Rng& rng) {
    constexpr int kParts[] = {1, 1, 2, 3, 8, 63, 64, 65, 512, 4096};
    return kParts[below(rng, 10)];
}

/// All that the format of profiles allows.
HardwareProfile hostile_hardware(Rng& rng) {
    const bool mild = below(rng, 2) == 0;
    const auto rate = [&] { return mild ? between_log(rng, 1, 1e3) : between_log(rng, 1e-3, 1e6); };
    HardwareProfile h = {.name = "hostile", .cpu_read_gbps = rate(), .dram_gbps = rate()};
    h.cpu_tflops = rate();
    h.ram_gb = between_log(rng, 1, 1e6);
    h.has_device = below(rng, 8) != 0;
    if (h.has_device) {
        h.unified_memory = below(rng, 3) == 0;
        h.device_read_gbps = rate();
        h.link_gbps = h.unified_memory ? 0.0 : rate();
        h.device_memory_gb = below(rng, 5) == 0 ? 0.0 : between_log(rng, 1e-3, 1e3);
        h.hop_us = rate();
        h.device_tflops = rate();
        h.expert_prefill_factor = mild ? 0.63 : rate();
    }
    return h;
}

TensorGroup hostile_group(Rng& rng, GroupKind kind, int layer) {
    TensorGroup group = {.kind = kind, .layer = layer, .parts = hostile_parts(rng)};
    group.weight_bytes = hostile_bytes(rng);
    group.weights = hostile_bytes(rng);
    if (kind == GroupKind::kAttention) {
        group.kv_bytes_per_token = below(rng, 3) == 0 ? 0 : 1ULL << below(rng, 20);
        group.window = below(rng, 2) * below(rng, 4096);
        group.attention_width = below(rng, 1 << 20);
        group.state_bytes = below(rng, 3) == 0 ? hostile_bytes(rng) : 0;
    }
    if (kind == GroupKind::kExperts) {
        group.experts_used = below(rng, std::min(group.parts, 64) + 1);
        group.expert_bytes = hostile_bytes(rng) / static_cast<std::uint64_t>(group.parts);
        group.expert_weights = group.expert_bytes * 2;
    }
    return group;
}

/// Layers of any groups, with and without a head; sometimes a head alone.
TensorCatalog hostile_model(Rng& rng) {
    TensorCatalog catalog = {.name = "hostile", .width = below(rng, 1 << 16)};
    catalog.n_layers = below(rng, 4);
    catalog.embedding_bytes = hostile_bytes(rng);
    const bool alike = below(rng, 2) == 0;
    for (int layer = 0; layer < catalog.n_layers; ++layer) {
        const int groups = 1 + below(rng, 3);
        for (int i = 0; i < groups; ++i) {
            catalog.groups.push_back(
                hostile_group(rng, static_cast<GroupKind>(below(rng, 3)), layer));
        }
        if (alike && layer > 0) {
            const TensorGroup first = catalog.groups.front();
            catalog.groups.back() = first;
            catalog.groups.back().layer = layer;
        }
    }
    if (catalog.groups.empty() || below(rng, 3) > 0) {
        catalog.groups.push_back(hostile_group(rng, GroupKind::kHead, -1));
    }
    return catalog;
}

void expect_numbers(const PlanAnswer& answer, const std::string& name) {
    const auto expect_number = [&](double value, const char* what) {
        EXPECT_TRUE(std::isfinite(value) && value >= 0.0) << name << ": " << what << " " << value;
    };
    expect_number(answer.result.plan.decode_seconds, "decode");
    expect_number(answer.result.plan.prefill_seconds, "prefill");
    expect_number(answer.result.decode_bound_seconds, "bound of decode");
    expect_number(answer.result.prefill_bound_seconds, "bound of prefill");
    expect_number(answer.result.mix_bound_seconds, "bound of the mix");
    expect_number(answer.result.gap, "gap");
    expect_number(answer.decode_limit_seconds, "limit of decode");
    expect_number(answer.prefill_limit_seconds, "limit of prefill");
    expect_number(answer.host_bytes, "RAM");
    for (const scheduler::ClassBytes& of_class : answer.bytes) {
        expect_number(of_class.device + of_class.streamed, "bytes on the device");
        // A sum of shares may fall short of the whole by a rounding error.
        EXPECT_GE(of_class.cpu, -1e-9 * (of_class.device + of_class.streamed)) << name;
    }
    EXPECT_FALSE(answer.sentence.empty()) << name;
    EXPECT_EQ(answer.sentence.find("nan"), std::string::npos) << name << ": " << answer.sentence;
    EXPECT_EQ(answer.sentence.find("inf"), std::string::npos) << name << ": " << answer.sentence;
}

void expect_sound(const PlanQuestion& question, const std::string& name) {
    const PlanAnswer answer = scheduler::answer(question);
    expect_numbers(answer, name);
    const scheduler::ForecastPlacement& plan = answer.result.plan;
    ASSERT_EQ(plan.placement.groups.size(), question.catalog->groups.size()) << name;
    const scheduler::KvReserve reserve = {.tokens = question.context,
                                          .unified_memory = question.hardware.unified_memory};
    EXPECT_LE(static_cast<double>(device_bytes(*question.catalog, plan.placement, reserve).total()),
              answer.memory_bytes)
        << name;
    // Groups of a petabyte have larger tiles than the bound thinks, and there are steps of 1e-13 s.
    constexpr double kNearly = 1.0 + 1e-3;
    EXPECT_LE(answer.result.decode_bound_seconds, plan.decode_seconds * kNearly) << name;
    EXPECT_LE(answer.result.prefill_bound_seconds, plan.prefill_seconds * kNearly) << name;
    for (const scheduler::PolicyForecast& policy : answer.result.policies) {
        if (policy.best) {
            EXPECT_TRUE(std::isfinite(policy.best->decode_seconds)) << name;
        }
    }
}

TEST(Hostile, EveryModelOnEveryMachineHasASoundAnswer) {
    constexpr std::uint64_t kRounds = kSanitized ? 400 : 3000;
    for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
        Rng rng(seed);
        const TensorCatalog catalog = hostile_model(rng);
        const HardwareProfile hardware = hostile_hardware(rng);
        PlanQuestion question = {.catalog = &catalog, .hardware = hardware};
        question.context = 4 << below(rng, 16);
        if (below(rng, 3) == 0) {
            question.device_budget_bytes = static_cast<double>(hostile_bytes(rng));
        }
        const int mix = below(rng, 4);
        question.prefill_weight = mix == 0 ? 0.0 : between_log(rng, 1e-3, 1e3);
        question.decode_weight = mix == 1 ? 0.0 : between_log(rng, 1e-3, 1e3);
        question.locality = static_cast<scheduler::Locality>(below(rng, 3));
        question.hops = static_cast<scheduler::HopModel>(below(rng, 2));
        expect_sound(question, fmt::format("seed {}", seed));
        if (testing::Test::HasFailure()) {
            return;  // one is enough to look at
        }
    }
}

}  // namespace
}  // namespace ballast::test
