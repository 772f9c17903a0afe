// SPDX-License-Identifier: MIT
// Super-chunks: the logits of the CPU alone whatever their size and whatever runs in between, what
// streams crosses once for each, and one that is left leaves nothing behind.
#include "engine/runtime/super_chunk.h"

#include <numeric>

#include "tests/engine/runtime/divided_plans.h"
#include "tests/engine/runtime/feed.h"
#include "tests/engine/runtime/harness.h"
#include "tests/support/sanitizer.h"

namespace ballast::test {
namespace {

TinyModelOptions long_context(TinyModelOptions options) {
    options.context_length = Feed::kContext;
    return options;
}

std::vector<TokenId> prompt_of(std::size_t n, TokenId first) {
    std::vector<TokenId> prompt(n);
    for (std::size_t i = 0; i < n; ++i) {
        prompt[i] = (first + static_cast<TokenId>(i) * 7) % 280;
    }
    return prompt;
}

/// The others end within a grain or at its border.
std::vector<std::vector<TokenId>> prompts() {
    return {prompt_of(5, 3), prompt_of(330, 40), prompt_of(128, 90), prompt_of(71, 150)};
}

runtime::EngineOptions on_host(const std::string& kv_type = "f16") {
    return {.threads = 2, .kv_type = kv_type, .device = "host", .vram_budget = 1ULL << 30U};
}

using AllLogits = std::vector<std::vector<float>>;

AllLogits logits_of_cpu(const TinyFixture& fixture,
                        const FeedPlay& play,
                        const std::string& kv_type = "f16") {
    auto compute = runtime::Compute::create(
        *fixture.model().model, {.threads = 2, .kv_type = kv_type}, Feed::shape(0));
    EXPECT_TRUE(compute.has_value()) << compute.error().message;
    Feed feed(fixture.model(), **compute, play);
    EXPECT_TRUE(feed.run().has_value());
    EXPECT_EQ(feed.n_chunks, 0) << "nothing streams";
    return feed.logits();
}

/// All feed-forwards stream in prompts; attention and the head are resident where `resident`.
std::shared_ptr<const scheduler::Plan> streaming_plan(const scheduler::TensorCatalog& catalog,
                                                      bool resident,
                                                      bool in_decode = false) {
    auto plan = std::make_shared<scheduler::Plan>(*whole_group_plan(catalog, [&](std::size_t i) {
        return resident && catalog.groups[i].kind != scheduler::GroupKind::kFeedForward;
    }));
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        if (catalog.groups[i].kind == scheduler::GroupKind::kFeedForward) {
            plan->placement.groups[i].prefill_streamed = catalog.groups[i].parts;
            plan->placement.groups[i].streamed = in_decode ? catalog.groups[i].parts : 0;
        }
    }
    return plan;
}

struct Case {
    int super_rows = 0;
    int chunk = 0;
    int pieces_between = 0;
};

std::vector<Case> cases() {
    return {{512, 64, 0}, {512, 192, 2}, {192, 128, 1}, {128, 64, 3}};
}

class SuperChunks : public testing::TestWithParam<TinyModelOptions> {};

TEST_P(SuperChunks, GiveTheBitsOfTheCpuWhateverTheirSizeAndWhateverRunsBetween) {
    const TinyFixture fixture(long_context(GetParam()));
    FeedPlay play{.prompts = prompts(), .n_generated = 12, .always = true};
    const AllLogits expected = logits_of_cpu(fixture, play);
    const scheduler::TensorCatalog& catalog = fixture.model().model->catalog();
    int n_chunks = 0;
    int n_between = 0;
    std::vector<std::shared_ptr<const scheduler::Plan>> plans = {
        streaming_plan(catalog, false),
        streaming_plan(catalog, true),
        streaming_plan(catalog, false, true),
        streaming_plan(catalog, true, true)};
    for (std::uint64_t seed = 5; seed < (kSanitized ? 7U : 10U); ++seed) {
        plans.push_back(random_plan(catalog, seed));
    }
    for (std::size_t i = 0; i < plans.size(); ++i) {
        for (std::size_t k = i; k < i + 2; ++k) {
            const Case each = cases()[k % cases().size()];
            SCOPED_TRACE(testing::Message() << "plan " << i << ", " << each.super_rows << " rows");
            runtime::ComputeShape shape = Feed::shape(each.super_rows);
            shape.plan = plans[i];
            shape.host.faults.seed = i;
            shape.host.faults.delay_max = std::chrono::microseconds(i % 3 == 0 ? 100 : 0);
            auto compute = runtime::Compute::create(*fixture.model().model, on_host(), shape);
            ASSERT_TRUE(compute.has_value()) << compute.error().message;
            EXPECT_EQ((*compute)->residency().degraded, "");
            play.chunk = each.chunk;
            play.pieces_between = each.pieces_between;
            Feed feed(fixture.model(), **compute, play);
            const Status status = feed.run();
            ASSERT_TRUE(status.has_value()) << status.error().message;
            for (std::size_t prompt = 0; prompt < expected.size(); ++prompt) {
                EXPECT_TRUE(same_bits(feed.logits()[prompt], expected[prompt])) << prompt;
            }
            n_chunks += feed.n_chunks;
            n_between += feed.n_between;
        }
    }
    EXPECT_GE(n_chunks, 18);
    EXPECT_GT(n_between, 40);
}

/// One prompt on the device as this shape has it, in super-chunks of so many rows or in steps.
AllLogits logits_of_prompt(const TinyFixture& fixture,
                           runtime::ComputeShape shape,
                           int super_rows,
                           int* n_chunks) {
    shape.super_rows = super_rows;
    auto compute = runtime::Compute::create(*fixture.model().model, on_host("f32"), shape);
    EXPECT_TRUE(compute.has_value()) << compute.error().message;
    EXPECT_EQ((*compute)->residency().degraded, "");
    Feed feed(fixture.model(), **compute, {.prompts = {prompt_of(330, 40)}, .always = true});
    const Status status = feed.run();
    EXPECT_TRUE(status.has_value()) << status.error().message;
    *n_chunks += feed.n_chunks;
    return feed.logits();
}

class DividedSuperChunks : public SuperChunks {};

TEST_P(DividedSuperChunks, GiveTheBitsOfStepsHoweverTheGroupsAreDivided) {
    const TinyFixture fixture(long_context(GetParam()));
    int n_chunks = 0;
    for (std::uint64_t seed = 0; seed < (kSanitized ? 4U : 16U); ++seed) {
        SCOPED_TRACE(seed);
        runtime::ComputeShape shape = Feed::shape(0);
        shape.plan = divided_plan(fixture.model().model->catalog(), seed);
        // Groups cross in up to eight tiles, more than the ring holds.
        shape.tile_bytes = seed % 2 == 0 ? 9000 : 25000;
        shape.host.faults.seed = seed;
        shape.host.faults.delay_max = std::chrono::microseconds(seed % 3 == 0 ? 100 : 0);
        int none = 0;
        const AllLogits expected = logits_of_prompt(fixture, shape, 0, &none);
        EXPECT_EQ(none, 0);
        for (const int rows : {512, 192}) {
            EXPECT_TRUE(
                same_bits(logits_of_prompt(fixture, shape, rows, &n_chunks)[0], expected[0]))
                << rows;
        }
    }
    EXPECT_GE(n_chunks, 12);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    SuperChunks,
    testing::Values(TinyModelOptions{.n_layers = 3},
                    TinyModelOptions{.type = quant::QuantType::kQ8_0},
                    TinyModelOptions{.architecture = "gemma3", .n_layers = 6, .n_kv_heads = 1}),
    testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    DividedSuperChunks,
    testing::Values(TinyModelOptions{.n_layers = 3},
                    TinyModelOptions{.n_experts = 4, .type = quant::QuantType::kQ4_1},
                    TinyModelOptions{.architecture = "gemma3", .n_layers = 6, .n_kv_heads = 1}),
    testing::PrintToStringParamName());

/// Feeds one prompt and gives what crossed into the ring for each crossing of all that streams.
class Crossings {
  public:
    explicit Crossings(const TinyFixture& fixture, bool in_decode) : fixture_(fixture) {
        plan_ = streaming_plan(fixture.model().model->catalog(), false, in_decode);
    }
    std::unique_ptr<runtime::Compute> compute(int super_rows) const {
        runtime::ComputeShape shape = Feed::shape(super_rows);
        shape.plan = plan_;
        auto made = runtime::Compute::create(*fixture_.model().model, on_host(), shape);
        EXPECT_TRUE(made.has_value()) << made.error().message;
        return std::move(*made);
    }
    /// Feed-forward weights but the norm, which stays.
    std::uint64_t all_bytes() const {
        std::uint64_t bytes = 0;
        const model::Model& model = *fixture_.model().model;
        for (const scheduler::TensorGroup& group : model.catalog().groups) {
            if (group.kind == scheduler::GroupKind::kFeedForward) {
                bytes += group.weight_bytes -
                         sizeof(float) * static_cast<std::uint64_t>(model.config().width);
            }
        }
        return bytes;
    }

  private:
    const TinyFixture& fixture_;
    std::shared_ptr<const scheduler::Plan> plan_;
};

/// What has crossed of weights, by what for.
std::uint64_t prompt_bytes(const runtime::Compute& compute) {
    return compute.transfers().bytes(runtime::TransferDirection::kIn,
                                     runtime::TransferReason::kPrefillWeights);
}
std::uint64_t generated_bytes(const runtime::Compute& compute) {
    return compute.transfers().bytes(runtime::TransferDirection::kIn,
                                     runtime::TransferReason::kDecodeWeights);
}

TEST(SuperChunkBytes, CrossOnceForEachSuperChunk) {
    const TinyFixture fixture(long_context({.n_layers = 6, .type = quant::QuantType::kQ8_0}));
    for (const bool in_decode : {false, true}) {
        const Crossings crossings(fixture, in_decode);
        for (const std::size_t n_prompt : {65U, 128U, 200U, 330U, 449U}) {
            for (const int rows : {64, 128, 192, 512}) {
                SCOPED_TRACE(testing::Message() << n_prompt << " in " << rows);
                auto compute = crossings.compute(rows);
                Feed feed(fixture.model(),
                          *compute,
                          {.prompts = {prompt_of(n_prompt, 9)}, .n_generated = 1});
                ASSERT_TRUE(feed.run().has_value());
                const auto n_chunks = (n_prompt + static_cast<std::size_t>(rows) - 1) /
                                      static_cast<std::size_t>(rows);
                EXPECT_EQ(prompt_bytes(*compute), n_chunks * crossings.all_bytes());
            }
        }
    }
}

TEST(SuperChunkBytes, AreNotLostToStepsThatStreamInBetween) {
    const TinyFixture fixture(long_context({.n_layers = 6, .type = quant::QuantType::kQ8_0}));
    const Crossings crossings(fixture, true);
    auto compute = crossings.compute(512);
    Feed feed(fixture.model(),
              *compute,
              {.prompts = {prompt_of(5, 3), prompt_of(449, 9)},
               .n_generated = 40,
               .pieces_between = 2,
               .always = true});
    while (!feed.anyone_decodes() || !feed.in_chunk()) {
        const Status status = feed.go_on();
        ASSERT_TRUE(status.has_value()) << status.error().message;
    }
    const std::uint64_t before = prompt_bytes(*compute);
    while (feed.in_chunk()) {
        const Status status = feed.go_on();
        ASSERT_TRUE(status.has_value()) << status.error().message;
    }
    EXPECT_GT(feed.n_between, 4);
    EXPECT_EQ(generated_bytes(*compute),
              static_cast<std::uint64_t>(feed.n_between) * crossings.all_bytes());
    EXPECT_EQ(prompt_bytes(*compute), 2 * crossings.all_bytes()) << "once for each prompt";
    EXPECT_LT(before, 2 * crossings.all_bytes()) << "all had crossed before the first piece";
}

}  // namespace
}  // namespace ballast::test
