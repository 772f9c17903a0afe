// SPDX-License-Identifier: MIT
// The evaluator: passes in parts, chunks of any size, and the two classes agree closely.
#include <cmath>
#include <numeric>

#include "engine/runtime/evaluator.h"
#include "tests/engine/runtime/harness.h"

namespace ballast::test {
namespace {

std::vector<float> logits_of(const runtime::LoadedModel& model,
                             std::span<const TokenId> ids,
                             ArithmeticClass arithmetic,
                             std::size_t chunk) {
    auto evaluator = runtime::Evaluator::create(*model.model, {.threads = 2}, 1, 256);
    EXPECT_TRUE(evaluator.has_value()) << evaluator.error().message;
    std::vector<float> all;
    for (std::size_t done = 0; done < ids.size(); done += chunk) {
        const auto part = ids.subspan(done, std::min(chunk, ids.size() - done));
        EXPECT_TRUE((*evaluator)
                        ->feed(0,
                               part,
                               arithmetic,
                               runtime::Wanted::kAll,
                               [&](int, std::int64_t, std::span<const float> logits) {
                                   all.insert(all.end(), logits.begin(), logits.end());
                               })
                        .has_value());
    }
    return all;
}

std::vector<TokenId> some_ids(int n) {
    std::vector<TokenId> ids(static_cast<std::size_t>(n));
    std::iota(ids.begin(), ids.end(), 3);
    return ids;
}

TEST(Evaluator, GivesTheSameBitsHoweverThePromptIsCut) {
    const TinyFixture fixture({.n_experts = 4, .type = quant::QuantType::kQ8_0});
    const auto ids = some_ids(150);
    const auto whole = logits_of(fixture.model(), ids, ArithmeticClass::kPrefill, 150);
    ASSERT_EQ(whole.size(), 150U * kTinyVocabulary);
    for (const std::size_t chunk : {1U, 7U, 32U, 64U, 100U}) {
        EXPECT_EQ(logits_of(fixture.model(), ids, ArithmeticClass::kPrefill, chunk), whole)
            << chunk;
    }
}

TEST(Evaluator, DecodeAgreesWithPrefillUpToRounding) {
    const TinyFixture fixture({.type = quant::QuantType::kQ8_0});
    const auto ids = some_ids(60);
    const auto prefill = logits_of(fixture.model(), ids, ArithmeticClass::kPrefill, 60);
    const auto decode = logits_of(fixture.model(), ids, ArithmeticClass::kDecode, 60);
    ASSERT_EQ(prefill.size(), decode.size());
    // Activations are rounded to 16 bits in both; sums differ in order only.
    for (std::size_t i = 0; i < prefill.size(); ++i) {
        ASSERT_NEAR(prefill[i], decode[i], 5e-3) << i;
    }
}

TEST(Executor, GivesTheSameBitsWhenItIsResumedBetweenLayers) {
    const TinyFixture fixture({.n_layers = 4});
    const auto ids = some_ids(40);
    std::vector<std::int32_t> outputs = {39};
    std::vector<std::vector<float>> results;
    for (const bool in_parts : {false, true}) {
        auto compute =
            runtime::Compute::create(*fixture.model().model,
                                     {.threads = 2},
                                     {.sequences = 1, .context = 64, .rows = 64, .outputs = 1});
        ASSERT_TRUE(compute.has_value()) << compute.error().message;
        cache::BlockTable table((*compute)->blocks(), 2);
        ASSERT_TRUE(table.grow(40).has_value());
        const backend::SequenceRows rows{
            .first_row = 0, .n_rows = 40, .first_position = 0, .blocks = table.blocks()};
        const backend::StepInput input{
            .tokens = ids, .sequences = {&rows, 1}, .n_decode_rows = 0, .output_rows = outputs};
        runtime::Executor& executor = (*compute)->executor();
        if (in_parts) {
            ASSERT_TRUE(executor.begin(input).has_value());
            const int n = fixture.model().model->ops().n_segments();
            ASSERT_EQ(n, 6);
            for (int segment = 0; segment < n; ++segment) {
                ASSERT_TRUE(executor.run_segments(segment, segment + 1).has_value());
            }
        } else {
            ASSERT_TRUE(executor.run(input).has_value());
        }
        const auto logits = executor.logits(0);
        results.emplace_back(logits.begin(), logits.end());
    }
    EXPECT_EQ(results[0], results[1]);
}

TEST(Evaluator, RefusesMoreTokensThanItsContext) {
    const TinyFixture fixture;
    auto evaluator = runtime::Evaluator::create(*fixture.model().model, {.threads = 1}, 1, 32);
    ASSERT_TRUE(evaluator.has_value());
    const auto status = (*evaluator)
                            ->feed(0,
                                   some_ids(33),
                                   ArithmeticClass::kPrefill,
                                   runtime::Wanted::kNone,
                                   [](int, std::int64_t, std::span<const float>) {});
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kTooLarge);
}

TEST(Perplexity, AgreesBetweenTheClassesAndNamesATextThatIsTooShort) {
    const TinyFixture fixture;
    const std::string text(200, 'a');
    const auto measure = [&](int context, ArithmeticClass arithmetic) {
        return runtime::perplexity(fixture.model(),
                                   {.threads = 1},
                                   text,
                                   {.context = context, .arithmetic = arithmetic},
                                   [](int, double) {});
    };
    const auto prefill = measure(32, ArithmeticClass::kPrefill);
    const auto decode = measure(32, ArithmeticClass::kDecode);
    ASSERT_TRUE(prefill.has_value()) << prefill.error().message;
    ASSERT_TRUE(decode.has_value()) << decode.error().message;
    EXPECT_GT(*prefill, 1.0);
    EXPECT_NEAR(*prefill, *decode, 1e-3 * *prefill);
    const auto short_text = measure(256, ArithmeticClass::kPrefill);
    ASSERT_FALSE(short_text.has_value());
    EXPECT_NE(short_text.error().message.find("one window (--context) needs 256"),
              std::string::npos);
}

}  // namespace
}  // namespace ballast::test
