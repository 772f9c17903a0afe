// SPDX-License-Identifier: MIT
// The real models' vocabularies on texts of ours, with ids from an independent tokenizer.
#include <gtest/gtest.h>

#include "engine/gguf/reader.h"
#include "engine/tokenizer/stream_decoder.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/test_data.h"

namespace ballast::tokenizer {
namespace {

class ModelVocabulary : public testing::TestWithParam<const char*> {};

// tests/data/tokenize_KEY.jsonl: tests/engine/tokenizer/make_tokenize_golden.py
TEST_P(ModelVocabulary, GivesTheIdsOfAnIndependentTokenizerAndTheTextBack) {
    const std::string key = GetParam();
    BALLAST_MODEL_OR_SKIP(model, key);
    auto reader = gguf::Reader::open(model);
    ASSERT_TRUE(reader.has_value()) << reader.error().message;
    const auto loaded = Tokenizer::load((*reader)->metadata());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    const Tokenizer& tokenizer = **loaded;
    reader->reset();  // the tokenizer must not need the mapping any longer
    const auto cases = test::read_json_lines(test::data_path("tokenize_" + key + ".jsonl"));
    ASSERT_EQ(cases.size(), 43U);
    for (const auto& golden : cases) {
        SCOPED_TRACE(golden["text"].dump());
        const auto text = golden["text"].get<std::string>();
        const auto ids = golden["ids"].get<std::vector<TokenId>>();
        const auto parsed = golden["ids_parsed"].get<std::vector<TokenId>>();
        EXPECT_EQ(tokenizer.encode(text, {.add_special = false}), ids);
        EXPECT_EQ(tokenizer.encode(text, {.add_special = false, .parse_special = true}), parsed);
        EXPECT_EQ(tokenizer.decode(ids, false), text);
        EXPECT_EQ(tokenizer.decode(parsed, true), text);
        StreamDecoder decoder(tokenizer);
        std::string streamed;
        for (const TokenId id : ids) {
            streamed += decoder.feed(id);
        }
        EXPECT_EQ(streamed + decoder.finish(), text);
    }
}

INSTANTIATE_TEST_SUITE_P(Tokenizer,
                         ModelVocabulary,
                         testing::Values("smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m"));

}  // namespace
}  // namespace ballast::tokenizer
