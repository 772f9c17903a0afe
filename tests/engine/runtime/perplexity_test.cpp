// SPDX-License-Identifier: MIT
// Perplexity of the GNU GPL on the two real models, against llama.cpp's on the same file. The
// fastest instruction set runs all 8 windows in both classes, the others the first window in the
// prefill class (all of them, everywhere, with BALLAST_NIGHTLY=1).
#include <tuple>

#include <fmt/format.h>

#include "engine/kernels/cpu/kernel_table.h"
#include "engine/runtime/evaluator.h"
#include "engine/runtime/loaded_model.h"
#include "tests/support/test_data.h"

namespace ballast::test {
namespace {

constexpr const char* kModels[] = {"smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m"};
constexpr int kChunks = 8;

class PerplexityOfTheGpl
    : public testing::TestWithParam<std::tuple<const char*, Isa, ArithmeticClass>> {};

Isa fastest() {
    const auto table = kernels::choose_kernels("");
    return table ? (*table)->isa : Isa::kScalar;
}

TEST_P(PerplexityOfTheGpl, IsNoWorseThanLlamaCpps) {
    const auto& [key, isa, arithmetic] = GetParam();
    if (kernels::find_kernels(isa) == nullptr) {
        GTEST_SKIP() << "SKIPPED: this processor or build has no " << isa_name(isa);
    }
    const bool whole = isa == fastest() || nightly();
    if (!whole && arithmetic == ArithmeticClass::kDecode) {
        GTEST_SKIP()
            << "SKIPPED: the decode class of slower instruction sets runs with BALLAST_NIGHTLY=1";
    }
    BALLAST_MODEL_OR_SKIP(path, key);
    BALLAST_REFDATA_OR_SKIP(text_path, "perplexity/gpl-3.txt");
    double expected = 0.0;
    double expected_first = 0.0;
    for (const auto& line : read_json_lines(refdata_path("perplexity/results.jsonl"))) {
        if (line["model"] == key && line["weights"] == "as shipped") {
            expected = line["final"];
            expected_first = line["running"][0];
        }
    }
    ASSERT_GT(expected, 1.0);
    const auto loaded = runtime::load_model(path, "");
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    const auto result =
        runtime::perplexity(*loaded,
                            {.threads = 1, .force_isa = isa_name(isa)},
                            read_file(text_path),
                            {.chunks = whole ? kChunks : 1, .arithmetic = arithmetic},
                            [](int, double) {});
    ASSERT_TRUE(result.has_value()) << result.error().message;
    const double bar = whole ? expected : expected_first;
    fmt::print("{} {} {} {} windows: perplexity {:.4f} (bar {})\n",
               key,
               isa_name(isa),
               arithmetic == ArithmeticClass::kPrefill ? "prefill" : "decode",
               whole ? kChunks : 1,
               *result,
               bar);
    EXPECT_TRUE(*result <= bar) << *result;
    EXPECT_GT(*result, bar * 0.95) << "better than exact arithmetic can be";
}

INSTANTIATE_TEST_SUITE_P(
    All,
    PerplexityOfTheGpl,
    testing::Combine(testing::ValuesIn(kModels),
                     testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                     testing::Values(ArithmeticClass::kPrefill, ArithmeticClass::kDecode)),
    [](const auto& parameter) {
        std::string name = std::get<0>(parameter.param);
        for (char& c : name) {
            c = c == '-' || c == '_' ? '_' : c;
        }
        return name + "_" + isa_name(std::get<1>(parameter.param)) +
               (std::get<2>(parameter.param) == ArithmeticClass::kPrefill ? "_prefill" : "_decode");
    });

}  // namespace
}  // namespace ballast::test
