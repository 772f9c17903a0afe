// SPDX-License-Identifier: MIT
// The two real models against the exact oracle (exact/ of the reference data): logits of the last
// prompt position. The bars are llama.cpp's own distance from it.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "tests/engine/model/reference.h"
#include "tests/support/npy.h"
#include "tests/support/test_data.h"

namespace ballast::test {
namespace {

struct RealModel {
    const char* key;
    double rms_max;
};

constexpr RealModel kModels[] = {{"smollm2-135m-instruct-q4_1", 0.36},
                                 {"gemma-3-270m-q4_k_m", 0.42}};

class ExactLogits
    : public testing::TestWithParam<std::tuple<RealModel, std::string, ArithmeticClass>> {};

TEST_P(ExactLogits, AreWithinLlamaCppsOwnDistance) {
    const auto& [real, isa, arithmetic] = GetParam();
    const std::string key = real.key;
    BALLAST_MODEL_OR_SKIP(path, key);
    BALLAST_REFDATA_OR_SKIP(index_path, "exact/index.jsonl");
    const OpenModel open = open_model(path);
    const auto evaluator = make_evaluator(open, isa, "f16", 1, 256);
    double sum = 0.0;
    std::size_t n = 0;
    int n_prompts = 0;
    for (const auto& expected : read_json_lines(index_path)) {
        if (expected["model"] != key) {
            continue;
        }
        ++n_prompts;
        const auto array =
            read_npy(refdata_path("exact/" + expected["logits_file"].get<std::string>()));
        ASSERT_TRUE(array.has_value()) << array.error().message;
        const auto ids = expected["ids"].get<std::vector<TokenId>>();
        evaluator->reset(0);
        const auto compare = [&](int, std::int64_t, std::span<const float> logits) {
            ASSERT_EQ(logits.size(), array->values.size());
            for (std::size_t i = 0; i < logits.size(); ++i) {
                const double difference =
                    static_cast<double>(logits[i]) - static_cast<double>(array->values[i]);
                sum += difference * difference;
            }
            n += logits.size();
            EXPECT_EQ(arg_max(logits), arg_max(array->values));
        };
        ASSERT_TRUE(
            evaluator->feed(0, ids, arithmetic, runtime::Wanted::kLast, compare).has_value());
    }
    EXPECT_EQ(n_prompts, 3);
    const double rms = std::sqrt(sum / static_cast<double>(n));
    RecordProperty("rms", fmt::format("{:.4f}", rms));
    fmt::print("{} {} {}: rms {:.4f} (bar {})\n",
               key,
               isa,
               arithmetic == ArithmeticClass::kPrefill ? "prefill" : "decode",
               rms,
               real.rms_max);
    EXPECT_TRUE(rms <= real.rms_max) << rms;
}

INSTANTIATE_TEST_SUITE_P(
    All,
    ExactLogits,
    testing::Combine(testing::ValuesIn(kModels),
                     testing::ValuesIn(available_isas()),
                     testing::Values(ArithmeticClass::kPrefill, ArithmeticClass::kDecode)),
    [](const auto& parameter) {
        return test_name(
            std::string(std::get<0>(parameter.param).key) + "_" + std::get<1>(parameter.param) +
            (std::get<2>(parameter.param) == ArithmeticClass::kPrefill ? "_prefill" : "_decode"));
    });

}  // namespace
}  // namespace ballast::test
