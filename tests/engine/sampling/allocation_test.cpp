// SPDX-License-Identifier: MIT
// A decode step must not allocate: counts calls of operator new while sampling.
#include <gtest/gtest.h>

#include "engine/sampling/sampler.h"
#include "tests/engine/sampling/counting_new.h"

namespace ballast::sampling {
namespace {

int allocations_of_samples(SamplingOptions options) {
    constexpr int kVocabulary = 5000;
    options.logit_bias = {{7, 1.5F}, {8, -100.0F}};
    options.banned = {9};
    Sampler sampler(std::move(options), kVocabulary);
    std::vector<float> logits(kVocabulary);
    const std::vector<TokenId> prompt = {1, 2, 3, 4999};
    sampler.observe_prompt(prompt);
    const int before = test::n_allocations();
    for (int step = 0; step < 50; ++step) {
        for (int i = 0; i < kVocabulary; ++i) {
            logits[static_cast<std::size_t>(i)] =
                static_cast<float>((i * 7919 + step) % kVocabulary) / 400.0F;
        }
        if (!sampler.sample(logits)) {
            return -1;
        }
    }
    return test::n_allocations() - before;
}

TEST(Sampler, TakesNoMemoryAfterConstruction) {
    EXPECT_EQ(allocations_of_samples({.temperature = 0.0F}), 0);
    EXPECT_EQ(allocations_of_samples({.temperature = 1.0F}), 0);
    EXPECT_EQ(allocations_of_samples({.temperature = 3.0F,
                                      .top_k = 1000,
                                      .top_p = 0.99F,
                                      .min_p = 0.01F,
                                      .repetition_penalty = 1.1F,
                                      .presence_penalty = 0.5F,
                                      .frequency_penalty = 0.5F}),
              0);
}

TEST(Sampler, TheCountingOfMemorySeesALogprobList) {
    EXPECT_GT(allocations_of_samples({.top_logprobs = 5}), 0);
}

}  // namespace
}  // namespace ballast::sampling
