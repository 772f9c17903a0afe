// SPDX-License-Identifier: MIT
// Logits of real models and of the reference data's small ones do not change by a bit wherever the
// groups are.
#include "tests/engine/model/reference.h"
#include "tests/engine/runtime/script.h"
#include "tests/support/test_data.h"

namespace ballast::test {
namespace {

class RealModel : public testing::TestWithParam<std::string> {};

TEST_P(RealModel, GivesTheBitsOfTheCpuWhereverItsGroupsAre) {
    BALLAST_MODEL_OR_SKIP(path, GetParam());
    const OpenModel open = open_model(path);
    // The first six are the extremes and one at random.
    expect_the_bits_of_the_cpu(*open.model, 0, nightly() ? 29 : 5, 2);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         RealModel,
                         testing::Values("smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m"),
                         [](const auto& test) { return test_name(test.param); });

class SmallModel : public testing::TestWithParam<std::string> {};

TEST_P(SmallModel, GivesTheBitsOfTheCpuWhereverItsGroupsAre) {
    BALLAST_REFDATA_OR_SKIP(path, "tiny/" + GetParam() + ".gguf");
    const OpenModel open = open_model(path);
    expect_the_bits_of_the_cpu(*open.model, 0, 9, 4);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         SmallModel,
                         testing::Values("llama-gqa-untied-bpe",
                                         "llama-mha-tied-spm",
                                         "llama-mqa-ropefreqs-bpe",
                                         "llama-rope-linear-bpe",
                                         "llama-moe-mixtral-spm",
                                         "gemma3-swa8-spm",
                                         "llama-gqa-tied-spm-f16"),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace ballast::test
