// SPDX-License-Identifier: MIT
// Policies side by side on machines and models that are shipped.
#include "scheduler/sim/policy_run.h"

#include <set>

#include <gtest/gtest.h>

#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"

namespace ballast::scheduler {
namespace {

const std::vector<SimPolicy> kAll(kSimPolicies.begin(), kSimPolicies.end());

struct Asked {
    TensorCatalog catalog;
    PlanQuestion question;
    PlanAnswer answer;
};

std::unique_ptr<Asked> ask(const std::string& model, const std::string& hardware) {
    auto asked = std::make_unique<Asked>();
    asked->catalog = *catalog_of(*stored_model(model), "");
    asked->question = {.catalog = &asked->catalog, .hardware = *stored_hardware(hardware)};
    asked->answer = answer(asked->question);
    return asked;
}

const PolicyRun* find(const std::vector<PolicyRun>& runs, SimPolicy policy) {
    for (const PolicyRun& run : runs) {
        if (run.policy == policy) {
            return &run;
        }
    }
    return nullptr;
}

TEST(PolicyRun, HasAKeyAndANameForEachPolicy) {
    std::set<std::string> texts;
    for (const SimPolicy policy : kSimPolicies) {
        texts.insert(sim_policy_key(policy));
        texts.insert(sim_policy_name(policy));
    }
    EXPECT_EQ(texts.size(), 2 * kSimPolicies.size());
}

TEST(PolicyRun, TakesNoLessThanTheHardwareAndOursNoLongerThanTheOthers) {
    for (const char* model : {"qwen3-14b", "qwen3-30b-a3b"}) {
        SCOPED_TRACE(model);
        const auto asked = ask(model, "laptop-4060");
        const std::vector<PolicyRun> runs = run_policies(asked->question, asked->answer, kAll);
        EXPECT_EQ(runs.size(), asked->catalog.has_experts() ? 6U : 5U);
        const PolicyRun* ours = find(runs, SimPolicy::kOurs);
        ASSERT_NE(ours, nullptr);
        for (const PolicyRun& run : runs) {
            SCOPED_TRACE(sim_policy_key(run.policy));
            // Drawn experts may be luckier than their average.
            EXPECT_GE(run.decode.seconds, 0.98 * asked->answer.decode_limit_seconds);
            EXPECT_GE(run.prompt_seconds, asked->answer.prefill_limit_seconds);
            EXPECT_LE(ours->decode.seconds, 1.01 * run.decode.seconds);
            for (const double busy :
                 {run.decode.device_busy, run.decode.cpu_busy, run.decode.link_busy}) {
                EXPECT_GE(busy, 0.0);
                EXPECT_LE(busy, 1.0);
            }
        }
    }
}

TEST(PolicyRun, CopiesSeriallyAndInSmallStepsAsLlamaCppDoes) {
    const auto asked = ask("qwen3-14b", "laptop-4060");
    const std::vector<PolicyRun> runs = run_policies(asked->question, asked->answer, kAll);
    const PolicyRun* layers = find(runs, SimPolicy::kWholeLayers);
    ASSERT_NE(layers, nullptr);
    EXPECT_EQ(layers->prompt_step_tokens, 512);
    EXPECT_TRUE(layers->prompt_copies);
    EXPECT_GT(layers->prompt_seconds, find(runs, SimPolicy::kOurs)->prompt_seconds);
}

TEST(PolicyRun, CopiesNothingOnUnifiedMemory) {
    const auto asked = ask("qwen3-14b", "strix-halo");
    for (const PolicyRun& run : run_policies(asked->question, asked->answer, kAll)) {
        EXPECT_FALSE(run.prompt_copies);
        EXPECT_EQ(run.decode.link_bytes, 0.0);
    }
}

TEST(PolicyRun, HasOnlyTheCpuWhereThereIsNoDevice) {
    const auto asked = ask("llama-3.1-8b", "laptop-4060");
    asked->question.hardware.has_device = false;
    asked->answer = answer(asked->question);
    const std::vector<PolicyRun> runs = run_policies(asked->question, asked->answer, kAll);
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_EQ(runs[0].policy, SimPolicy::kCpuOnly);
    EXPECT_EQ(runs[0].decode.cpu_busy, 1.0);
}

TEST(PolicyRun, IsTheSameEachTime) {
    const auto asked = ask("gpt-oss-20b", "desktop-4070");
    const auto first = run_policies(asked->question, asked->answer, {SimPolicy::kOurs});
    const auto second = run_policies(asked->question, asked->answer, {SimPolicy::kOurs});
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].decode.seconds, second[0].decode.seconds);
    EXPECT_EQ(first[0].decode.n_events, second[0].decode.n_events);
}

}  // namespace
}  // namespace ballast::scheduler
