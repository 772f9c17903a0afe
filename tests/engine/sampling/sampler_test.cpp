// SPDX-License-Identifier: MIT
// The sampler against goldens of an independent one, its distribution, and hostile logits.
#include "engine/sampling/sampler.h"

#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "tests/support/test_data.h"

namespace ballast::sampling {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

SamplingOptions options_from(const nlohmann::json& json, std::uint64_t seed) {
    SamplingOptions options;
    options.temperature = json.value("temperature", 1.0F);
    options.top_k = json.value("top_k", 0);
    options.top_p = json.value("top_p", 1.0F);
    options.min_p = json.value("min_p", 0.0F);
    options.repetition_penalty = json.value("repetition_penalty", 1.0F);
    options.presence_penalty = json.value("presence_penalty", 0.0F);
    options.frequency_penalty = json.value("frequency_penalty", 0.0F);
    for (const auto& pair : json.value("logit_bias", nlohmann::json::array())) {
        options.logit_bias.emplace_back(pair[0].get<TokenId>(), pair[1].get<float>());
    }
    options.banned = json.value("banned", std::vector<TokenId>{});
    options.seed = seed;
    return options;
}

TokenId sample_id(const SamplingOptions& options, std::vector<float> logits) {
    Sampler sampler(options, static_cast<int>(logits.size()));
    const auto sample = sampler.sample(logits);
    return sample ? sample->id : -1;
}

// tests/data/sampling_golden.jsonl: python3 tests/engine/sampling/make_golden.py
TEST(Sampler, DrawsWhatAnIndependentSamplerDraws) {
    const auto cases = test::read_json_lines(test::data_path("sampling_golden.jsonl"));
    ASSERT_EQ(cases.size(), 12U);
    for (const auto& golden : cases) {
        SCOPED_TRACE(golden["options"].dump());
        Sampler sampler(options_from(golden["options"], golden["seed"].get<std::uint64_t>()), 1000);
        sampler.observe_prompt(golden["prompt"].get<std::vector<TokenId>>());
        std::vector<TokenId> ids;
        for (int t = 0; t < 24; ++t) {
            std::vector<float> logits;
            for (int i = 0; i < 1000; ++i) {
                const int step = (i * 7919 + 131 * (t / 6)) % 1000;
                logits.push_back(static_cast<float>(step) / 50.0F - 10.0F);
            }
            const auto sample = sampler.sample(logits);
            ASSERT_TRUE(sample.has_value());
            ids.push_back(sample->id);
        }
        EXPECT_EQ(ids, golden["ids"].get<std::vector<TokenId>>());
    }
}

TEST(Sampler, DrawsEachTokenAsOftenAsItsProbabilitySays) {
    const std::vector<float> logits = {0.0F, 1.0F, 2.0F, -1.0F, -kInf};
    const double temperature = 1.25;
    std::vector<double> expected;
    double total = 0.0;
    for (const float logit : logits) {
        expected.push_back(std::exp(static_cast<double>(logit) / temperature));
        total += expected.back();
    }
    constexpr int kDraws = 200000;
    Sampler sampler({.temperature = 1.25F, .seed = 42}, 5);
    std::vector<int> counts(5);
    for (int i = 0; i < kDraws; ++i) {
        std::vector<float> copy = logits;
        ++counts[static_cast<std::size_t>(sampler.sample(copy)->id)];
    }
    EXPECT_EQ(counts[4], 0);
    // Chi-squared with 3 degrees of freedom: below 16.3 with probability 0.999. The seed is fixed.
    double chi_squared = 0.0;
    for (std::size_t i = 0; i < 4; ++i) {
        const double mean = kDraws * expected[i] / total;
        chi_squared += (counts[i] - mean) * (counts[i] - mean) / mean;
    }
    EXPECT_LT(chi_squared, 16.3);
    EXPECT_GT(chi_squared, 0.0);
}

TEST(Sampler, GivesTheSameTokensForTheSameSeedAndOthersForAnother) {
    const auto run = [](std::uint64_t seed) {
        Sampler sampler({.temperature = 1.0F, .seed = seed}, 100);
        std::vector<TokenId> ids;
        for (int i = 0; i < 40; ++i) {
            std::vector<float> flat(100, 0.5F);
            ids.push_back(sampler.sample(flat)->id);
        }
        return ids;
    };
    EXPECT_EQ(run(7), run(7));
    EXPECT_NE(run(7), run(8));
}

TEST(Sampler, TakesTheLowestIdOfEquallyProbableOnesAtTemperatureZero) {
    EXPECT_EQ(sample_id({.temperature = 0.0F}, {1.0F, 3.0F, 3.0F, 2.0F}), 1);
    EXPECT_EQ(sample_id({.temperature = 0.0F}, {-5.0F, -5.0F}), 0);
}

TEST(Sampler, NeverChoosesALogitThatIsNotFinite) {
    EXPECT_EQ(sample_id({.temperature = 0.0F}, {kNan, 1.0F, kInf, 2.0F, -kInf}), 3);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const TokenId id =
            sample_id({.temperature = 5.0F, .seed = seed}, {kNan, 1.0F, kInf, 2.0F, -kInf});
        EXPECT_TRUE(id == 1 || id == 3) << id;
    }
}

TEST(Sampler, FailsIfNothingCanBeChosen) {
    for (const float temperature : {0.0F, 1.0F}) {
        Sampler sampler({.temperature = temperature, .banned = {2}}, 3);
        std::vector<float> logits = {kNan, -kInf, 1.0F};
        const auto sample = sampler.sample(logits);
        ASSERT_FALSE(sample.has_value());
        EXPECT_EQ(sample.error().code, ErrorCode::kInternal);
    }
}

TEST(Sampler, StaysWithTheBestAtAVerySmallTemperature) {
    EXPECT_EQ(sample_id({.temperature = 1e-42F}, {1.0F, 1.5F, -2.0F}), 1);
    EXPECT_EQ(sample_id({.temperature = kNan}, {1.0F, 1.5F, -2.0F}), 1);
}

TEST(Sampler, KeepsOneTokenHoweverTightTheFilters) {
    const std::vector<float> logits = {0.0F, 1.0F, 0.5F};
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        EXPECT_EQ(sample_id({.top_p = 0.0F, .seed = seed}, logits), 1);
        EXPECT_EQ(sample_id({.top_p = -3.0F, .seed = seed}, logits), 1);
        EXPECT_EQ(sample_id({.top_k = 1, .seed = seed}, logits), 1);
        EXPECT_EQ(sample_id({.min_p = 9.0F, .seed = seed}, logits), 1);
    }
}

TEST(Sampler, IgnoresIdsOutsideTheVocabulary) {
    Sampler sampler({.temperature = 0.0F,
                     .repetition_penalty = 2.0F,
                     .logit_bias = {{-1, 50.0F}, {3, 50.0F}, {2000000000, 1.0F}},
                     .banned = {-5, 99}},
                    3);
    const std::vector<TokenId> prompt = {-1, 3, 1 << 30};
    sampler.observe_prompt(prompt);
    std::vector<float> logits = {0.0F, 2.0F, 1.0F};
    EXPECT_EQ(sampler.sample(logits)->id, 1);
}

TEST(Sampler, ReportsLogprobsOfTheUnmodifiedLogits) {
    Sampler sampler(
        {.temperature = 0.0F, .logit_bias = {{0, 100.0F}, {3, -100.0F}}, .top_logprobs = 3}, 5);
    std::vector<float> logits = {-1.0F, 2.0F, kNan, 3.0F, 2.0F};
    const auto sample = sampler.sample(logits);
    ASSERT_TRUE(sample.has_value());
    const double normalizer =
        std::log(std::exp(-1.0) + std::exp(2.0) + std::exp(3.0) + std::exp(2.0));
    EXPECT_EQ(sample->id, 0);
    EXPECT_NEAR(sample->logprob, -1.0 - normalizer, 1e-6);
    ASSERT_EQ(sample->top_logprobs.size(), 3U);
    EXPECT_EQ(sample->top_logprobs[0].id, 3);
    EXPECT_NEAR(sample->top_logprobs[0].logprob, 3.0 - normalizer, 1e-6);
    EXPECT_EQ(sample->top_logprobs[1].id, 1);  // equal ones: the lower id first
    EXPECT_EQ(sample->top_logprobs[2].id, 4);
}

TEST(Sampler, ReportsOnlyTheChosenLogprobIfNoneElseIsWanted) {
    Sampler sampler({.temperature = 0.0F, .top_logprobs = 0}, 2);
    std::vector<float> logits = {0.0F, 0.0F};
    const auto sample = sampler.sample(logits);
    EXPECT_NEAR(sample->logprob, std::log(0.5), 1e-7);
    EXPECT_TRUE(sample->top_logprobs.empty());
}

TEST(Sampler, GivesAsManyLogprobsAsTheVocabularyHas) {
    Sampler sampler({.temperature = 0.0F, .top_logprobs = 20}, 2);
    std::vector<float> logits = {0.0F, 1.0F};
    EXPECT_EQ(sampler.sample(logits)->top_logprobs.size(), 2U);
}

TEST(LogProbability, IsExactForLargeLogits) {
    const std::vector<float> logits = {1000.0F, 1001.0F, -kInf};
    EXPECT_NEAR(log_probability(logits, 0), -1.0 - std::log1p(std::exp(-1.0)), 1e-12);
    EXPECT_NEAR(log_probability(logits, 1), -std::log1p(std::exp(-1.0)), 1e-12);
    EXPECT_EQ(log_probability(logits, 2), -std::numeric_limits<double>::infinity());
}

// The penalties' definitions, in numbers worked out by hand.
TEST(Sampler, PenalisesPromptAndReplyByTheirRules) {
    // Repetition: 4 / 2 = 2 < 3; -1 * 2 = -2.
    Sampler repetition({.temperature = 0.0F, .repetition_penalty = 2.0F}, 3);
    repetition.observe_prompt(std::vector<TokenId>{0, 0, 2});
    std::vector<float> logits = {4.0F, 3.0F, -1.0F};
    EXPECT_EQ(repetition.sample(logits)->id, 1);
    EXPECT_EQ(logits, (std::vector<float>{2.0F, 3.0F, -2.0F}));
    // Presence 1 once, frequency 0.5 for each time; the prompt does not count.
    Sampler counts({.temperature = 0.0F, .presence_penalty = 1.0F, .frequency_penalty = 0.5F}, 2);
    counts.observe_prompt(std::vector<TokenId>{0, 0, 0});
    std::vector<TokenId> ids;
    for (int i = 0; i < 5; ++i) {
        std::vector<float> again = {4.0F, 2.0F};
        ids.push_back(counts.sample(again)->id);
    }
    // 4, 2.5, 2 (a tie with 2: the lower id), 1.5 < 2, then 1.5 against 0.5.
    EXPECT_EQ(ids, (std::vector<TokenId>{0, 0, 0, 1, 0}));
}

}  // namespace
}  // namespace ballast::sampling
