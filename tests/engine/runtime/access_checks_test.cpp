// SPDX-License-Identifier: MIT
// Steps of the executor under an access checker: it sees every one of them and finds nothing, also
// where the device is late, runs out of memory, or is lost.
#include "engine/backend/access_checker.h"

#include "engine/base/check.h"
#include "tests/engine/runtime/divided_plans.h"
#include "tests/engine/runtime/harness.h"
#include "tests/engine/runtime/script.h"

namespace ballast::test {
namespace {

/// What a checker finds.
struct Findings {
    std::vector<std::string> sentences;
    std::shared_ptr<backend::AccessChecker> checker =
        std::make_shared<backend::AccessChecker>(backend::AccessChecker::Options{
            .handler = [this](const std::string& sentence) { sentences.push_back(sentence); },
            .unwritten = true});
    Findings() = default;
    Findings(const Findings&) = delete;
    Findings& operator=(const Findings&) = delete;
};

/// The script under a plan of this seed; `set` may change the shape.
template <class Set>
void expect_no_finding(const TinyModelOptions& tiny, std::uint64_t seed, const Set& set) {
    const TinyFixture fixture(tiny);
    const model::Model& model = *fixture.model().model;
    Findings findings;
    runtime::ComputeShape shape = Script::shape();
    shape.plan = random_plan(model.catalog(), seed);
    shape.checker = findings.checker;
    set(shape);
    {
        auto compute = runtime::Compute::create(
            model, {.threads = 2, .device = "host", .vram_budget = 64ULL << 20U}, shape);
        ASSERT_TRUE(compute.has_value()) << compute.error().message;
        Script script(model, **compute, 3);
        static_cast<void>(script.run());
        EXPECT_GT(findings.checker->n_checked(), 10U);
    }
    EXPECT_EQ(findings.sentences, std::vector<std::string>()) << "seed " << seed;
    EXPECT_EQ(findings.checker->n_remembered(), 0U) << "after the end";
}

TEST(AccessChecks, FindNothingWhereverTheGroupsAre) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        for (const TinyModelOptions& tiny :
             {TinyModelOptions{.n_layers = 3},
              TinyModelOptions{.n_experts = 4, .type = quant::QuantType::kQ4_1},
              TinyModelOptions{.architecture = "gemma3", .n_layers = 6, .n_kv_heads = 1}}) {
            expect_no_finding(tiny, seed, [](runtime::ComputeShape&) {});
        }
    }
}

TEST(AccessChecks, FindNothingHoweverTheGroupsAreDivided) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        for (const TinyModelOptions& tiny :
             {TinyModelOptions{.n_layers = 3},
              TinyModelOptions{.n_experts = 4, .type = quant::QuantType::kQ4_1},
              TinyModelOptions{.architecture = "gemma3", .n_layers = 6, .n_kv_heads = 1}}) {
            const auto divide = [&](runtime::ComputeShape& shape) {
                const TinyFixture fixture(tiny);
                shape.plan = divided_plan(fixture.model().model->catalog(), seed);
                shape.tile_bytes = 3000;
                shape.host.faults.seed = seed;
                shape.host.faults.delay_max = std::chrono::microseconds(seed % 2 == 0 ? 0 : 300);
            };
            expect_no_finding(tiny, seed, divide);
        }
    }
}

TEST(AccessChecks, FindNothingWhereAStepIsLeftWhileWeightsCross) {
    const TinyFixture fixture({.n_layers = 3});
    const model::Model& model = *fixture.model().model;
    auto plan = std::make_shared<scheduler::Plan>(
        scheduler::Plan{.version = 1, .placement = scheduler::cpu_only(model.catalog())});
    for (std::size_t i = 0; i < plan->placement.groups.size(); ++i) {
        if (model.catalog().groups[i].kind == scheduler::GroupKind::kAttention) {
            continue;  // to move its keys and values would wait for the copies
        }
        plan->placement.groups[i].streamed = model.catalog().groups[i].parts;
        plan->placement.groups[i].prefill_streamed = model.catalog().groups[i].parts;
    }
    Findings findings;
    runtime::ComputeShape shape = Script::shape();
    shape.plan = plan;
    shape.checker = findings.checker;
    shape.host.pace = {.latency = std::chrono::milliseconds(5)};
    {
        auto compute = runtime::Compute::create(
            model, {.threads = 1, .device = "host", .vram_budget = 64ULL << 20U}, shape);
        ASSERT_TRUE(compute.has_value()) << compute.error().message;
        cache::BlockTable table((*compute)->blocks(), (*compute)->blocks_per_sequence());
        ASSERT_TRUE(table.grow(8).has_value());
        const std::vector<TokenId> tokens(8, 1);
        const backend::SequenceRows rows{.n_rows = 8, .blocks = table.blocks()};
        ASSERT_TRUE(
            (*compute)->executor().begin({.tokens = tokens, .sequences = {&rows, 1}}).has_value());
        ASSERT_TRUE((*compute)->executor().run_segments(0, 1).has_value());
        const auto released = (*compute)->release_device();
        ASSERT_TRUE(released.has_value()) << released.error().message;
        EXPECT_EQ((*compute)->device_use().bytes, 0U);
    }
    EXPECT_EQ(findings.sentences, std::vector<std::string>());
}

TEST(AccessChecks, FindNothingWhereTheDeviceIsLateOrFails) {
    for (std::uint64_t n = 1; n <= 6; ++n) {
        expect_no_finding({}, 2, [&](runtime::ComputeShape& shape) {
            shape.host.faults = {.seed = n, .delay_max = std::chrono::microseconds(200)};
        });
        expect_no_finding(
            {}, 2, [&](runtime::ComputeShape& shape) { shape.host.faults.failed_allocation = n; });
        expect_no_finding(
            {}, 2, [&](runtime::ComputeShape& shape) { shape.host.faults.failed_submission = n; });
        expect_no_finding(
            {}, 3, [&](runtime::ComputeShape& shape) { shape.host.faults.lost_at_submission = n; });
    }
}

TEST(AccessChecks, AreNotMadeIfTheyAreNotWanted) {
    const TinyFixture fixture;
    const model::Model& model = *fixture.model().model;
    runtime::ComputeShape shape = Script::shape();
    shape.plan = random_plan(model.catalog(), 2);
    shape.unchecked = true;
    auto compute = runtime::Compute::create(model, {.threads = 1, .device = "host"}, shape);
    ASSERT_TRUE(compute.has_value());
    EXPECT_EQ((*compute)->checker(), nullptr);
    shape.unchecked = false;
    compute = runtime::Compute::create(model, {.threads = 1, .device = "host"}, shape);
    ASSERT_TRUE(compute.has_value());
    EXPECT_EQ((*compute)->checker() != nullptr, kDebugChecks);
}

}  // namespace
}  // namespace ballast::test
