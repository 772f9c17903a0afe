// SPDX-License-Identifier: MIT
// What a running model says has crossed, beside what its plan says must.
#include "engine/runtime/transfer_stats.h"

#include "tests/engine/runtime/harness.h"
#include "tests/engine/runtime/script.h"

namespace ballast::test {
namespace {

using runtime::TransferDirection;
using runtime::TransferReason;
using runtime::TransferStats;

constexpr int kPromptSteps = 4;  // of the script: those with prompt tokens
constexpr int kDecodeSteps = 3;

const model::Model& model_of(const TinyFixture& fixture) {
    return *fixture.model().model;
}

runtime::EngineOptions on_host() {
    return {.threads = 1, .device = "host", .vram_budget = 64 * kMiB};
}

/// Runs the script with a plan.
TransferStats stats_of(const TinyFixture& fixture, const scheduler::Plan& plan) {
    runtime::ComputeShape shape = Script::shape();
    shape.plan = std::make_shared<const scheduler::Plan>(plan);
    auto compute = runtime::Compute::create(model_of(fixture), on_host(), shape);
    EXPECT_TRUE(compute.has_value());
    if (!compute) {
        return {};
    }
    EXPECT_EQ((*compute)->residency().degraded, "");
    Script script(model_of(fixture), **compute, kDecodeSteps);
    EXPECT_TRUE(script.run().has_value());
    return (*compute)->transfers();
}

TEST(TransferStats, CountWhatStreamsInEachKindOfStep) {
    const TinyFixture fixture({.n_layers = 3});
    const scheduler::TensorCatalog& catalog = model_of(fixture).catalog();
    scheduler::Plan plan = *whole_group_plan(catalog, [](std::size_t i) { return i == 0; });
    // A feed-forward streams in both kinds of steps, another one in prompts alone.
    const scheduler::TensorGroup& both = catalog.groups[3];
    const scheduler::TensorGroup& prompts = catalog.groups[5];
    plan.placement.groups[3].streamed = both.parts;
    plan.placement.groups[3].prefill_streamed = both.parts;
    plan.placement.groups[5].prefill_streamed = prompts.parts;
    const TransferStats stats = stats_of(fixture, plan);
    // The norm before them is whole on either side, and stays.
    const auto norm_bytes = static_cast<std::uint64_t>(model_of(fixture).config().width) * 4;
    const std::uint64_t both_bytes = both.weight_bytes - norm_bytes;
    const std::uint64_t prompt_bytes = both_bytes + prompts.weight_bytes - norm_bytes;
    const auto in = [&](TransferReason reason) {
        return stats.bytes(TransferDirection::kIn, reason);
    };
    EXPECT_EQ(in(TransferReason::kDecodeWeights), kDecodeSteps * both_bytes);
    EXPECT_EQ(in(TransferReason::kPrefillWeights), kPromptSteps * prompt_bytes);
    EXPECT_EQ(in(TransferReason::kUpload), catalog.groups[0].weight_bytes + 2 * norm_bytes);
    EXPECT_EQ(in(TransferReason::kKv), 0U);
    EXPECT_EQ(in(TransferReason::kExperts), 0U);
    EXPECT_GT(stats.copied.count(), 0);
    EXPECT_GE(stats.overlap_ratio(), 0.0);
    EXPECT_LE(stats.overlap_ratio(), 1.0);
}

TEST(TransferStats, CountActivationsBothWays) {
    const TinyFixture fixture({.n_layers = 3});
    const model::Model& model = model_of(fixture);
    // Of one whole feed-forward the residual goes there and back in each step.
    const TransferStats stats =
        stats_of(fixture, *whole_group_plan(model.catalog(), [](std::size_t i) { return i == 1; }));
    const int n_rows = 33 + 7 + (1 + 20) + (1 + 1 + 5) + kDecodeSteps * kScriptSequences;
    const std::uint64_t expected =
        static_cast<std::uint64_t>(n_rows) * static_cast<std::uint64_t>(model.config().width) * 4;
    EXPECT_EQ(stats.bytes(TransferDirection::kIn, TransferReason::kActivations), expected);
    EXPECT_EQ(stats.bytes(TransferDirection::kOut, TransferReason::kActivations), expected);
    EXPECT_EQ(stats.copied.count(), 0) << "no weights stream";
}

TEST(TransferStats, CountKeysAndValuesThatComeBack) {
    const TinyFixture fixture({.n_layers = 2});
    const model::Model& model = model_of(fixture);
    runtime::ComputeShape shape = Script::shape();
    shape.plan = whole_group_plan(model.catalog(), [](std::size_t i) { return i == 0; });
    auto compute = runtime::Compute::create(model, on_host(), shape);
    ASSERT_TRUE(compute.has_value());
    Script script(model, **compute, kDecodeSteps);
    ASSERT_TRUE(script.run().has_value());
    const std::uint64_t block_bytes =
        (*compute)->catalog().groups[0].kv_bytes_per_token * kernels::kKvBlockTokens;
    const auto n_used = static_cast<std::uint64_t>((*compute)->blocks().n_used());
    ASSERT_TRUE((*compute)->release_device().has_value());
    const TransferStats stats = (*compute)->transfers();
    EXPECT_EQ(stats.bytes(TransferDirection::kOut, TransferReason::kKv), n_used * block_bytes);
    EXPECT_EQ(stats.bytes(TransferDirection::kIn, TransferReason::kKv), 0U);
}

TEST(TransferStats, CountNothingWithoutADevice) {
    const TinyFixture fixture({.n_layers = 2});
    auto compute = runtime::Compute::create(model_of(fixture), {.threads = 1}, Script::shape());
    ASSERT_TRUE(compute.has_value());
    Script script(model_of(fixture), **compute, 1);
    ASSERT_TRUE(script.run().has_value());
    const TransferStats stats = (*compute)->transfers();
    for (const TransferDirection direction : runtime::kTransferDirections) {
        for (const TransferReason reason : runtime::kTransferReasons) {
            EXPECT_EQ(stats.bytes(direction, reason), 0U);
        }
    }
    EXPECT_EQ(stats.copied.count(), 0);
}

}  // namespace
}  // namespace ballast::test
