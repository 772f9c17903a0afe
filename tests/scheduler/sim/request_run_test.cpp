// SPDX-License-Identifier: MIT
// Requests are divided as asked, and are planned and run at their own size.
#include "tests/scheduler/sim/request_run.h"

#include <gtest/gtest.h>

#include "scheduler/profile/profile_store.h"

namespace ballast::test {
namespace {

using scheduler::SimPolicy;

TEST(RequestRun, DividesTokensAsTheWeightsSay) {
    const RequestSize long_prompt = divide_request(4200, 20, 1);
    EXPECT_EQ(long_prompt.prompt, 4000);
    EXPECT_EQ(long_prompt.generated, 200);
    EXPECT_EQ(long_prompt.mean_depth(), 4100);
    const RequestSize long_answer = divide_request(4200, 1, 20);
    EXPECT_EQ(long_answer.prompt, 200);
    EXPECT_EQ(long_answer.generated, 4000);
    EXPECT_EQ(long_answer.mean_depth(), 2200);
}

TEST(RequestRun, KeepsAPromptAndAnAnswerHoweverUnequal) {
    EXPECT_EQ(divide_request(100, 1, 1e6).prompt, 2);
    EXPECT_EQ(divide_request(100, 1, 1e6).generated, 98);
    EXPECT_EQ(divide_request(100, 1e6, 1).prompt, 99);
    EXPECT_EQ(divide_request(100, 1e6, 1).generated, 1);
}

TEST(RequestRun, PlansAndRunsTheSizeThatWasAsked) {
    auto scenario = scenario_of("llama-3.1-8b:Q8_0", *scheduler::stored_hardware("laptop-4060"));
    ASSERT_TRUE(scenario) << scenario.error().message;
    const RequestSize size{.prompt = 300, .generated = 100};
    run_request(*scenario, size);
    EXPECT_EQ(scenario->answer.depth, 350);
    EXPECT_EQ(scenario->answer.prefill_tokens, 300);
    const scheduler::PolicyRun* ours = find_run(*scenario, SimPolicy::kOurs);
    const scheduler::PolicyRun* layers = find_run(*scenario, SimPolicy::kWholeLayers);
    ASSERT_TRUE(ours != nullptr && layers != nullptr);
    EXPECT_EQ(find_run(*scenario, SimPolicy::kExpertsLast), nullptr);
    EXPECT_DOUBLE_EQ(request_seconds(*ours, size),
                     ours->prompt_seconds + 100 * ours->decode.seconds);
    EXPECT_LT(request_seconds(*ours, size), request_seconds(*layers, size));
}

TEST(RequestRun, RunsNothingWhereTheModelDoesNotFit) {
    auto scenario = scenario_of("llama-3.3-70b", *scheduler::stored_hardware("laptop-4060"));
    ASSERT_TRUE(scenario) << scenario.error().message;
    run_question(*scenario);
    EXPECT_EQ(scenario->answer.verdict, scheduler::Verdict::kCannotRun);
    EXPECT_TRUE(scenario->runs.empty());
}

}  // namespace
}  // namespace ballast::test
