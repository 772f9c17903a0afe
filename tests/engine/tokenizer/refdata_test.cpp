// SPDX-License-Identifier: MIT
// Tokenisation against the reference data: every text, in the four modes, and back.
#include <gtest/gtest.h>

#include "engine/gguf/reader.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/test_data.h"

namespace ballast::tokenizer {
namespace {

std::unique_ptr<Tokenizer> load(const std::string& path) {
    auto reader = gguf::Reader::open(path);
    if (!reader) {
        ADD_FAILURE() << reader.error().message;
        return nullptr;
    }
    auto tokenizer = Tokenizer::load((*reader)->metadata());
    if (!tokenizer) {
        ADD_FAILURE() << tokenizer.error().message;
        return nullptr;
    }
    return std::move(*tokenizer);
}

std::string to_hex(std::string_view bytes) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string hex;
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        hex.push_back(kDigits[byte >> 4U]);
        hex.push_back(kDigits[byte & 15U]);
    }
    return hex;
}

void expect_cases_equal(const std::string& vocabulary_path, const std::string& cases_path) {
    const auto tokenizer = load(vocabulary_path);
    ASSERT_NE(tokenizer, nullptr);
    const auto cases = test::read_json_lines(cases_path);
    ASSERT_GT(cases.size(), 80U);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto text = cases[i]["text"].get<std::string>();
        SCOPED_TRACE(cases_path + " line " + std::to_string(i + 1) + ": " +
                     cases[i]["text"].dump());
        for (const bool add : {false, true}) {
            for (const bool parse : {false, true}) {
                const std::string mode =
                    std::string(add ? "add" : "noadd") + (parse ? "_parse" : "_noparse");
                const auto expected = cases[i]["ids"][mode].get<std::vector<TokenId>>();
                EXPECT_EQ(tokenizer->encode(text, {.add_special = add, .parse_special = parse}),
                          expected)
                    << mode;
            }
        }
        const auto ids = cases[i]["ids"]["noadd_parse"].get<std::vector<TokenId>>();
        const auto expected_hex = cases[i]["detok_hex"].is_null()
                                      ? to_hex(text)
                                      : cases[i]["detok_hex"].get<std::string>();
        EXPECT_EQ(to_hex(tokenizer->decode(ids, true)), expected_hex);
    }
}

class RealModel : public testing::TestWithParam<const char*> {};

TEST_P(RealModel, GivesTheReferenceIdsInAllModesAndTheTextBack) {
    const std::string name = GetParam();
    BALLAST_REFDATA_OR_SKIP(cases, "tokenize/" + name + ".jsonl");
    BALLAST_MODEL_OR_SKIP(model, name);
    expect_cases_equal(model, cases);
}

INSTANTIATE_TEST_SUITE_P(Tokenizer,
                         RealModel,
                         testing::Values("smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m"));

class VocabularyOnly : public testing::TestWithParam<const char*> {};

TEST_P(VocabularyOnly, GivesTheReferenceIdsInAllModesAndTheTextBack) {
    const std::string name = std::string("vocab-") + GetParam();
    BALLAST_REFDATA_OR_SKIP(cases, "tokenize/" + name + ".jsonl");
    BALLAST_REFDATA_OR_SKIP(vocabulary, "vocab/" + name + ".gguf");
    expect_cases_equal(vocabulary, cases);
}

INSTANTIATE_TEST_SUITE_P(Tokenizer,
                         VocabularyOnly,
                         testing::Values("gpt-2",
                                         "llama-bpe",
                                         "llama-spm",
                                         "phi-3",
                                         "qwen35",
                                         "command-r",
                                         "deepseek-coder",
                                         "deepseek-llm",
                                         "falcon",
                                         "gpt-neox",
                                         "refact",
                                         "starcoder"));

}  // namespace
}  // namespace ballast::tokenizer
