// SPDX-License-Identifier: MIT
// The two real models, teacher-forced along llama.cpp's greedy replies (greedy/ of the reference
// data): the prompt in the prefill class, the reply in the decode class, all prompts at once.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "engine/sampling/sampler.h"
#include "tests/engine/model/reference.h"
#include "tests/support/test_data.h"

namespace ballast::test {
namespace {

struct RealModel {
    const char* key;
    int n_clear_steps;  // steps of the quantised run whose top-2 gap is at least 0.5
};

constexpr RealModel kModels[] = {{"smollm2-135m-instruct-q4_1", 371}, {"gemma-3-270m-q4_k_m", 410}};
constexpr double kClearGap = 0.5;

class GreedyReplies : public testing::TestWithParam<std::tuple<RealModel, std::string>> {};

/// One reference reply.
struct Reply {
    std::vector<TokenId> prompt;
    std::vector<TokenId> ids;
    nlohmann::json top5;
};

std::vector<Reply> read_replies(const std::string& path) {
    std::vector<Reply> replies;
    for (const auto& line : read_json_lines(path)) {
        replies.push_back({line["prompt_ids"].get<std::vector<TokenId>>(),
                           line["greedy_ids"].get<std::vector<TokenId>>(),
                           line["top5"]});
    }
    return replies;
}

/// Calls on_step(reply, step, logits) for the logits before each reply id.
template <class OnStep>
void force(runtime::Evaluator& evaluator,
           const std::vector<Reply>& replies,
           const OnStep& on_step) {
    for (std::size_t i = 0; i < replies.size(); ++i) {
        const auto first = [&](int, std::int64_t, std::span<const float> logits) {
            on_step(i, 0U, logits);
        };
        ASSERT_TRUE(evaluator
                        .feed(static_cast<int>(i),
                              replies[i].prompt,
                              ArithmeticClass::kPrefill,
                              runtime::Wanted::kLast,
                              first)
                        .has_value());
    }
    std::size_t longest = 0;
    for (const Reply& reply : replies) {
        longest = std::max(longest, reply.ids.size());
    }
    for (std::size_t step = 1; step < longest; ++step) {
        std::vector<TokenId> ids;
        for (const Reply& reply : replies) {
            // A reply that has ended feeds its last id on; its logits are not looked at.
            ids.push_back(reply.ids[std::min(step, reply.ids.size()) - 1]);
        }
        const auto later = [&](int sequence, std::int64_t, std::span<const float> logits) {
            const auto i = static_cast<std::size_t>(sequence);
            if (step < replies[i].ids.size()) {
                on_step(i, step, logits);
            }
        };
        ASSERT_TRUE(evaluator.feed_decode(ids, later).has_value());
    }
}

TEST_P(GreedyReplies, HaveTheLogProbabilitiesOfTheUnquantisedRun) {
    const auto& [real, isa] = GetParam();
    const std::string key = real.key;
    BALLAST_MODEL_OR_SKIP(path, key);
    BALLAST_REFDATA_OR_SKIP(replies_path, "greedy/" + key + ".f32.jsonl");
    const OpenModel open = open_model(path);
    const std::vector<Reply> replies = read_replies(replies_path);
    const auto evaluator = make_evaluator(open, isa, "f16", static_cast<int>(replies.size()), 256);
    std::vector<double> differences;
    force(*evaluator, replies, [&](std::size_t i, std::size_t step, std::span<const float> logits) {
        for (const auto& entry : replies[i].top5[step]) {
            const double logprob = sampling::log_probability(logits, entry[0].get<TokenId>());
            differences.push_back(std::fabs(logprob - entry[1].get<double>()));
        }
    });
    ASSERT_GT(differences.size(), 2000U);
    std::sort(differences.begin(), differences.end());
    const double mean = std::accumulate(differences.begin(), differences.end(), 0.0) /
                        static_cast<double>(differences.size());
    const double p95 = differences[differences.size() * 95 / 100];
    fmt::print(
        "{} {}: mean |dlogp| {:.4f} (bar 0.025), p95 {:.4f} (bar 0.11)\n", key, isa, mean, p95);
    EXPECT_TRUE(mean <= 0.025) << mean;
    EXPECT_TRUE(p95 <= 0.11) << p95;
}

TEST_P(GreedyReplies, ChooseTheSameIdWhereTheGapIsClear) {
    const auto& [real, isa] = GetParam();
    const std::string key = real.key;
    if (isa == isa_name(Isa::kScalar) && isa != available_isas().back() && !nightly()) {
        GTEST_SKIP() << "SKIPPED: the scalar kernels run these with BALLAST_NIGHTLY=1";
    }
    BALLAST_MODEL_OR_SKIP(path, key);
    BALLAST_REFDATA_OR_SKIP(replies_path, "greedy/" + key + ".jsonl");
    const OpenModel open = open_model(path);
    const std::vector<Reply> replies = read_replies(replies_path);
    const auto evaluator = make_evaluator(open, isa, "f16", static_cast<int>(replies.size()), 256);
    int n_clear = 0;
    int n_steps = 0;
    int n_same = 0;
    force(*evaluator, replies, [&](std::size_t i, std::size_t step, std::span<const float> logits) {
        const auto& top = replies[i].top5[step];
        const double gap = top[0][1].get<double>() - top[1][1].get<double>();
        const bool same = arg_max(logits) == replies[i].ids[step];
        ++n_steps;
        n_same += same ? 1 : 0;
        if (gap >= kClearGap) {
            ++n_clear;
            EXPECT_TRUE(same) << key << " reply " << i << " step " << step << " gap " << gap;
        }
    });
    EXPECT_EQ(n_clear, real.n_clear_steps);
    fmt::print("{} {}: {} of {} steps have a clear gap; {} of all steps equal\n",
               key,
               isa,
               n_clear,
               n_steps,
               n_same);
}

INSTANTIATE_TEST_SUITE_P(All,
                         GreedyReplies,
                         testing::Combine(testing::ValuesIn(kModels),
                                          testing::ValuesIn(available_isas())),
                         [](const auto& parameter) {
                             return test_name(std::string(std::get<0>(parameter.param).key) + "_" +
                                              std::get<1>(parameter.param));
                         });

}  // namespace
}  // namespace ballast::test
