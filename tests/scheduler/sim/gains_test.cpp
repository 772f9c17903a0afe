// SPDX-License-Identifier: MIT
// What the study that the planner was built from expects of its plans, on the simulator.
#include "tests/scheduler/sim/gains.h"

#include <array>
#include <span>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scheduler/placement/plan_answer.h"
#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"
#include "tests/support/sanitizer.h"

namespace ballast::test {
namespace {

using scheduler::HardwareProfile;
using scheduler::HopModel;
using scheduler::Locality;
using scheduler::Policy;
using scheduler::TensorCatalog;

TensorCatalog model(const std::string& name) {
    return *catalog_of(*scheduler::stored_model(name), "");
}

/// A machine, and which sizes gain most there: weights over the device's memory at no hop's cost,
/// with overlapped and with blocking hops. A larger gain at another size would only help.
struct Machine {
    const char* name;
    bool near_five;  // of the five for which more is expected
    double free;
    double overlapped;
    double blocking;
};
constexpr std::array<Machine, 9> kMachines = {{{"laptop-4060", true, 1.28, 1.30, 1.30},
                                               {"laptop-3060", false, 1.04, 1.08, 1.04},
                                               {"desktop-3060-gen3", true, 1.07, 1.07, 1.05},
                                               {"desktop-3060-gen4", true, 1.07, 1.09, 1.07},
                                               {"desktop-4070", true, 1.11, 1.13, 1.11},
                                               {"desktop-4090", true, 1.00, 1.00, 1.00},
                                               {"desktop-5090", true, 1.01, 1.00, 1.02},
                                               {"desktop-a770", false, 1.11, 1.21, 1.10},
                                               {"egpu-4060ti", false, 1.19, 1.20, 1.14}}};

std::span<const Machine> machines() {
    return std::span(kMachines).first(kSanitized ? 2 : kMachines.size());
}

double gain_over_static(const Machine& machine, bool free, HopModel hops, double size) {
    HardwareProfile hardware = *scheduler::stored_hardware(machine.name);
    hardware.hop_us = free ? 0.0 : hardware.hop_us;
    return best_decode_gain(hardware, hops, {size}).over_static();
}

TEST(Gains, NearlyDoubleDecodeOfADenseModelThatNearlyFits) {
    for (const Machine& machine : machines()) {
        SCOPED_TRACE(machine.name);
        EXPECT_GE(gain_over_static(machine, true, HopModel::kOverlapped, machine.free), 1.75);
        EXPECT_GE(gain_over_static(machine, false, HopModel::kOverlapped, machine.overlapped),
                  machine.near_five ? 1.65 : 1.6);
        EXPECT_GE(gain_over_static(machine, false, HopModel::kBlocking, machine.blocking),
                  machine.near_five ? 1.5 : 1.4);
    }
}

TEST(Gains, CopyNothingOnUnifiedMemory) {
    for (const char* name : {"strix-halo", "apu-780m"}) {
        for (const char* model_name : {"llama-3.1-8b", "qwen3-14b", "qwen3-30b-a3b"}) {
            SCOPED_TRACE(fmt::format("{} on {}", model_name, name));
            const TensorCatalog catalog = model(model_name);
            const HardwareProfile hardware = *scheduler::stored_hardware(name);
            const scheduler::PlanAnswer answer =
                scheduler::answer({.catalog = &catalog, .hardware = hardware});
            const auto steps = scheduler::simulate_steps(hardware,
                                                         catalog,
                                                         answer.result.plan.placement,
                                                         {.shape = {.depth = answer.depth}});
            EXPECT_EQ(steps.link_bytes, 0.0);
            EXPECT_EQ(answer.verdict == scheduler::Verdict::kAllOnDevice,
                      hardware.name == "strix-halo");
        }
    }
}

TEST(Gains, OfExpertsGrowWithTheirLocality) {
    struct Bar {
        Locality locality;
        double overlapped;
        double blocking;
    };
    const TensorCatalog catalog = model("qwen3-30b-a3b");
    for (const Bar& bar : {Bar{Locality::kStrong, 1.65, 1.5},
                           Bar{Locality::kWeak, 1.2, 1.1},
                           Bar{Locality::kUniform, 1.05, 1.0}}) {
        for (const HopModel hops : {HopModel::kOverlapped, HopModel::kBlocking}) {
            const GainCase of = {.hardware = *scheduler::stored_hardware("laptop-4060"),
                                 .catalog = &catalog,
                                 .hops = hops,
                                 .locality = bar.locality};
            const auto others = policy_decode(of, Policy::kExpertsLast);
            ASSERT_TRUE(others);
            EXPECT_GE(others->seconds / planned_decode(of).seconds,
                      hops == HopModel::kOverlapped ? bar.overlapped : bar.blocking)
                << static_cast<int>(bar.locality);
        }
    }
}

TEST(Gains, HideMostOfWhatAPromptCopies) {
    for (const Machine& machine : machines()) {
        const HardwareProfile hardware = *scheduler::stored_hardware(machine.name);
        const TensorCatalog catalog =
            model(hardware.device_memory_gb > 20.0 ? "llama-3.3-70b" : "qwen3-32b");
        for (const double share : {0.9, 1.0, 1.1}) {
            const PrefillGain gain =
                dense_prefill_gain({.hardware = hardware, .catalog = &catalog}, share);
            EXPECT_GE(gain.gain(), 1.85) << machine.name << " at " << share;
            // Of a mix decode decides what is resident: on the two largest devices almost only
            // feed-forward parts, so that attention crosses in every layer.
            EXPECT_GE(gain.gain_of_mix(), 1.74) << machine.name << " at " << share;
        }
    }
}

TEST(Gains, CopyExpertsOnceForALongPrompt) {
    int n_cases = 0;
    for (const Machine& machine : machines()) {
        const HardwareProfile hardware = *scheduler::stored_hardware(machine.name);
        for (const char* name :
             {"qwen3-30b-a3b", "gpt-oss-20b", "qwen3-next-80b-a3b", "gpt-oss-120b"}) {
            const TensorCatalog catalog = model(name);
            const GainCase of = {.hardware = hardware, .catalog = &catalog, .context = 8192};
            const auto others = policy_decode(of, Policy::kExpertsLast);
            if (!holds(of) || !others || hardware.link_gbps < 10.0 ||
                hide_tokens(of, others->placement) < 2500.0) {
                continue;
            }
            ++n_cases;
            EXPECT_GE(expert_prefill_gain(of, 4096, 512).gain(), 5.0)
                << name << " on " << machine.name;
        }
    }
    EXPECT_GE(n_cases, kSanitized ? 2 : 10);
}

}  // namespace
}  // namespace ballast::test
