// SPDX-License-Identifier: MIT
// Verdicts for pairs of machine and model against a table worked out by hand.
#include "scheduler/placement/plan_answer.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"

namespace ballast::scheduler {
namespace {

PlanAnswer ask(const char* hardware, const char* model, std::optional<double> budget = {}) {
    const TensorCatalog catalog = *catalog_of(*stored_model(model), "");
    return answer({.catalog = &catalog,
                   .hardware = *stored_hardware(hardware),
                   .device_budget_bytes = budget});
}

struct Row {
    const char* hardware;
    const char* model;
    double limit_ms;            // T_LB of decode
    std::set<Verdict> verdict;  // two where W/V is at the border between them
};

// By hand, from sizes and rates: W bytes a token (depth 2048), V of the device, the limit's
// formula, and RAM. What needs V less than it has (and a ring where it is not unified) fits; dense
// models of W/V from 1.5 up leave the residual to the CPU, below 1.37 to the device, between the
// two either may be; experts are split where what is always read fits.
const Row kRows[] = {
    {"laptop-4060", "llama-3.1-8b", 17.9, {Verdict::kSplit}},
    {"laptop-4060", "qwen3-14b", 36.8, {Verdict::kSplit, Verdict::kCpuOwns}},
    {"laptop-4060", "qwen3-32b", 192.3, {Verdict::kCpuOwns}},
    {"laptop-4060", "llama-3.3-70b", 514.8, {Verdict::kCannotRun}},
    {"laptop-4060", "qwen3-30b-a3b", 10.9, {Verdict::kExpertsSplit}},
    {"laptop-4060", "gpt-oss-20b", 9.6, {Verdict::kExpertsSplit}},
    {"laptop-3060", "llama-3.1-8b", 14.8, {Verdict::kSplit}},
    {"laptop-3060", "glm-z1-9b", 20.3, {Verdict::kSplit}},
    {"laptop-3060", "qwen3-14b", 88.5, {Verdict::kCpuOwns}},
    {"desktop-3060-gen3", "qwen3-14b", 25.6, {Verdict::kAllOnDevice, Verdict::kSplit}},
    {"desktop-3060-gen4", "qwen3-32b", 217.6, {Verdict::kCpuOwns}},
    {"desktop-4070", "qwen3-32b", 116.9, {Verdict::kCpuOwns}},
    {"desktop-4070", "gpt-oss-20b", 5.4, {Verdict::kExpertsSplit}},
    {"desktop-4090", "qwen3-32b", 21.6, {Verdict::kAllOnDevice}},
    {"desktop-4090", "llama-3.3-70b", 468.0, {Verdict::kCpuOwns}},
    {"desktop-4090", "gpt-oss-120b", 29.0, {Verdict::kExpertsSplit}},
    {"desktop-4090", "llama-4-maverick", 39.2, {Verdict::kCannotRun}},
    {"desktop-5090", "llama-3.3-70b", 159.7, {Verdict::kCpuOwns, Verdict::kSplit}},
    {"desktop-a770", "qwen3-32b", 71.4, {Verdict::kSplit, Verdict::kCpuOwns}},
    {"egpu-4060ti", "qwen3-32b", 85.3, {Verdict::kSplit, Verdict::kCpuOwns}},
    {"apu-780m", "llama-3.1-8b", 66.9, {Verdict::kSplit}},
    {"strix-halo", "gpt-oss-120b", 17.1, {Verdict::kAllOnDevice}},
    {"apple-m2", "qwen3-32b", 220.6, {Verdict::kCannotRun}},
    {"apple-m3-max", "llama-3.3-70b", 118.3, {Verdict::kSplit}},
    {"desktop-4090", "llama-4-scout", 61.3, {Verdict::kExpertsSplit}},
    {"desktop-4090", "qwen3-next-80b-a3b", 11.7, {Verdict::kExpertsSplit}},
    {"desktop-7900xtx", "qwen3-32b", 46.9, {Verdict::kSplit}},
    {"desktop-5090", "qwen3.5-122b-a10b", 17.0, {Verdict::kExpertsSplit}},
    {"apu-780m", "qwen3-30b-a3b", 29.1, {Verdict::kExpertsSplit}},
    {"apple-m2", "qwen3-14b", 98.8, {Verdict::kSplit}},
    {"apple-m4-max", "llama-4-scout", 21.0, {Verdict::kExpertsSplit}},
    {"strix-halo", "llama-4-maverick", 48.2, {Verdict::kCannotRun}},
};

TEST(PlanAnswer, JudgesPairsAsWorkedOutByHand) {
    for (const Row& row : kRows) {
        const PlanAnswer found = ask(row.hardware, row.model);
        const std::string pair = std::string(row.hardware) + ", " + row.model + ": ";
        EXPECT_TRUE(row.verdict.contains(found.verdict))
            << pair << verdict_name(found.verdict) << ": " << found.sentence;
        EXPECT_NEAR(1e3 * found.decode_limit_seconds, row.limit_ms, 0.006 * row.limit_ms) << pair;
        // No plan beats physics, and a stated gap is a gap.
        EXPECT_GE(found.result.plan.decode_seconds, found.decode_limit_seconds) << pair;
        EXPECT_GE(found.result.plan.prefill_seconds, found.prefill_limit_seconds) << pair;
        EXPECT_GE(found.result.gap, 0.0) << pair;
        EXPECT_LT(found.result.gap, 0.08) << pair;
    }
}

}  // namespace
}  // namespace ballast::scheduler
