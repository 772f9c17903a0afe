// SPDX-License-Identifier: MIT
// Words against an independent matcher, by hand, and the compiled matcher against the interpreted.
#include "engine/tokenizer/pretokenize.h"

#include <gtest/gtest.h>

#include "engine/base/rng.h"
#include "engine/tokenizer/pretokenizer_rules.h"
#include "tests/support/test_data.h"

namespace ballast::tokenizer {
namespace {

using Words = std::vector<std::string_view>;

Pretokenizer make(std::string_view name, Pretokenizer::Matcher matcher = {}) {
    const auto rule = find_pretokenizer_rule(name);
    EXPECT_TRUE(rule.has_value()) << name;
    auto pretokenizer = Pretokenizer::create(rule->patterns, matcher);
    EXPECT_TRUE(pretokenizer.has_value()) << name;
    return std::move(*pretokenizer);
}

std::string joined(const Words& words) {
    std::string text;
    for (const std::string_view word : words) {
        text += word;
    }
    return text;
}

// tests/data/pretokenize_golden.jsonl: tests/engine/tokenizer/make_pretokenize_golden.py
TEST(Pretokenizer, CutsAsAnIndependentMatcherDoes) {
    const auto cases = test::read_json_lines(test::data_path("pretokenize_golden.jsonl"));
    ASSERT_EQ(cases.size(), 24U);
    for (const auto& golden : cases) {
        const auto text = golden["text"].get<std::string>();
        ASSERT_EQ(golden["lengths"].size(), 9U);
        for (const auto& [name, lengths] : golden["lengths"].items()) {
            std::vector<std::size_t> ours;
            for (const std::string_view word : make(name).split(text)) {
                ours.push_back(word.size());
            }
            EXPECT_EQ(ours, lengths.get<std::vector<std::size_t>>())
                << name << ": " << golden["text"].dump();
        }
    }
}

TEST(Pretokenizer, CutsByHand) {
    EXPECT_EQ(make("gpt-2").split("it's  12 é!?\n\n x"),
              (Words{"it", "'s", " ", " 12", " é", "!?", "\n\n", " x"}));
    EXPECT_EQ(make("smollm").split(" 12a"), (Words{" ", "1", "2", "a"}));
    EXPECT_EQ(make("falcon").split("a=b 12345."), (Words{"a", "=", "b", " ", "123", "45", "."}));
    EXPECT_EQ(make("default").split("x 1234"), (Words{"x", " ", "123", "4"}));
    EXPECT_EQ(make("deepseek-llm").split("ab  \ncd 12  "),
              (Words{"ab", "  ", "\n", "cd", " ", "12", "  "}));
    EXPECT_EQ(make("bloom").split("a b, c"), (Words{"a", " b", ",", " c"}));
    EXPECT_TRUE(make("gpt-2").split("").empty());
}

TEST(Pretokenizer, TakesWhiteSpaceFromUnicodeNotFromPcre) {
    // U+180E was white space until Unicode 6.2; U+0085 is.
    EXPECT_EQ(make("gpt-2").split("\xE1\xA0\x8Ex"), (Words{"\xE1\xA0\x8E", "x"}));
    EXPECT_EQ(make("gpt-2").split("!\xC2\x85"), (Words{"!", "\xC2\x85"}));
    EXPECT_EQ(make("gpt-2").split("!\xE1\xA0\x8E"), (Words{"!\xE1\xA0\x8E"}));
}

TEST(Pretokenizer, KeepsBrokenBytesAsWordsOfTheirOwn) {
    for (const std::string_view name : pretokenizer_names()) {
        const std::string text = "ab\xFF\xFE cd\xE2\x82";
        const Words words = make(name).split(text);
        EXPECT_EQ(joined(words), text);
        EXPECT_EQ(words[1], "\xFF\xFE") << name;
        EXPECT_EQ(words.back(), "\xE2\x82") << name;
    }
}

TEST(Pretokenizer, GivesTheSameWordsWithAndWithoutMachineCode) {
    const std::vector<std::string> alphabet = {
        "a",    "B",  "é",  "Ω", "漢", "ก", "1", "٣",        " ",        "  ",   "\n",
        "\r\n", "\t", "'s", "'", ".",  "$", "😀", "\xCC\x81", "\xC2\xA0", "\xFF", "/"};
    Rng rng(7);
    std::vector<std::string> texts;
    for (int n = 0; n < 100; ++n) {
        std::string text;
        for (std::uint64_t left = rng.below(30); left > 0; --left) {
            text += alphabet[rng.below(alphabet.size())];
        }
        texts.push_back(text);
    }
    for (const std::string_view name : pretokenizer_names()) {
        const Pretokenizer compiled = make(name, Pretokenizer::Matcher::kCompiled);
        const Pretokenizer interpreted = make(name, Pretokenizer::Matcher::kInterpreted);
        for (const std::string& text : texts) {
            const Words words = compiled.split(text);
            ASSERT_EQ(words, interpreted.split(text)) << name << ": " << text;
            ASSERT_EQ(joined(words), text) << name;
        }
    }
}

TEST(Pretokenizer, SaysWhichPatternDoesNotCompile) {
    const std::string_view pattern = "a(b";
    const auto result = Pretokenizer::create({&pattern, 1});
    ASSERT_FALSE(result.has_value());
    EXPECT_NE(result.error().message.find("a(b"), std::string::npos);
}

}  // namespace
}  // namespace ballast::tokenizer
