// SPDX-License-Identifier: MIT
// One MiB of a single class of characters, which has sent other tokenizers into hours of work or
// off their stack. Work of more than a power close to one would run into the test's time limit:
// a square of 2^20 steps takes many minutes. Under a sanitizer the texts are 128 KiB.
#include <algorithm>

#include <gtest/gtest.h>

#include "engine/tokenizer/pretokenize.h"
#include "engine/tokenizer/pretokenizer_rules.h"
#include "tests/engine/tokenizer/small_vocabulary.h"
#include "tests/support/sanitizer.h"

namespace ballast::tokenizer {
namespace {

constexpr std::size_t kTextBytes = test::kSanitized ? 1 << 17 : 1 << 20;

std::string repeat(std::string_view unit, std::size_t n_bytes) {
    std::string text;
    while (text.size() < n_bytes) {
        text += unit;
    }
    return text;
}

struct CharacterClass {
    const char* name;
    const char* unit;
};
constexpr CharacterClass kClasses[] = {
    {"spaces", " "},
    {"tabs", "\t"},
    {"newlines", "\n"},
    {"carriage returns and newlines", "\r\n"},
    {"no-break spaces", "\xC2\xA0"},
    {"digits", "7"},
    {"Arabic digits", "٣"},
    {"small letters", "a"},
    {"capitals", "A"},
    {"CJK", "漢"},
    {"Thai with marks", "กั"},
    {"combining marks", "\xCC\x81"},
    {"emoji", "😀"},
    {"punctuation", "!"},
    {"apostrophes", "'"},
    {"slashes", "/"},
    {"symbols", "$"},
    {"control characters", "\x01"},
    {"broken bytes", "\xFF"},
    {"cut characters", "\xE2\x82"},
    {"spaces and newlines", "   \n"},
    {"letters and spaces", "a "},
    {"words with two spaces", "aa  "},
    {"contractions", "'s"},
    {"specials cut short", "<|"},
};

// Ends that make a greedy match of the whole run fail at its end.
constexpr const char* kEnds[] = {"", "x", "\n", ".", "1"};

TEST(TokenizerWork, EveryPretokenizerTakesLongRunsOfOneClass) {
    std::vector<std::span<const std::string_view>> done;  // names that share patterns
    for (const std::string_view name : pretokenizer_names()) {
        const auto rule = find_pretokenizer_rule(name);
        const bool again = std::any_of(done.begin(), done.end(), [&](const auto& patterns) {
            return patterns.data() == rule->patterns.data();
        });
        if (again) {
            continue;
        }
        done.push_back(rule->patterns);
        const auto pretokenizer = Pretokenizer::create(rule->patterns);
        ASSERT_TRUE(pretokenizer.has_value());
        for (const CharacterClass& sort : kClasses) {
            for (const char* end : kEnds) {
                const std::string text = repeat(sort.unit, kTextBytes / 8) + end;
                std::size_t n_bytes = 0;
                for (const std::string_view word : pretokenizer->split(text)) {
                    n_bytes += word.size();
                }
                ASSERT_EQ(n_bytes, text.size()) << name << ", " << sort.name;
            }
        }
    }
    EXPECT_GE(done.size(), 12U);
}

// The limit on matcher steps must not be what ends the work: then the rest would be one word.
TEST(TokenizerWork, LongRunsAreCutWhereShortOnesAre) {
    for (const auto matcher :
         {Pretokenizer::Matcher::kCompiled, Pretokenizer::Matcher::kInterpreted}) {
        for (const std::string_view name : pretokenizer_names()) {
            const auto rule = find_pretokenizer_rule(name);
            const auto pretokenizer = Pretokenizer::create(rule->patterns, matcher);
            for (const char* unit : {" ", "\t", "\xC2\xA0"}) {
                for (const char* end : {"x", " x", "\n", ""}) {
                    const auto words_after_the_run = [&](std::size_t n_bytes) {
                        const std::string text = repeat(unit, n_bytes) + end;
                        auto words = pretokenizer->split(text);
                        std::vector<std::string> copies;
                        for (std::size_t i = 1; i < words.size(); ++i) {
                            copies.emplace_back(words[i]);
                        }
                        return copies;
                    };
                    ASSERT_EQ(words_after_the_run(kTextBytes / 16), words_after_the_run(64))
                        << name << " on " << end;
                }
            }
        }
    }
}

/// Merges that join a run of the same character again and again.
void add_doublings(test::SmallVocabulary& vocabulary, const std::string& piece) {
    std::string run = piece;
    for (int n = 0; n < 5; ++n) {
        vocabulary.add_merge(run, run);
        run += run;
    }
}

TEST(TokenizerWork, BpeTakesOneMebibyteOfEachClass) {
    for (const bool whole_words_first : {false, true}) {
        test::SmallVocabulary vocabulary =
            test::byte_level_vocabulary(whole_words_first ? "llama-bpe" : "smollm");
        vocabulary.more.add("tokenizer.ggml.add_bos_token", false);
        for (const char* piece : {"Ġ", "Ċ", "7", "a", "A", "!"}) {
            add_doublings(vocabulary, piece);
        }
        vocabulary.add("<|end|>", TokenKind::kControl);
        const auto tokenizer = vocabulary.load();
        ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
        for (const CharacterClass& sort : kClasses) {
            const std::string text =
                repeat(sort.unit, whole_words_first ? kTextBytes / 8 : kTextBytes);
            const auto ids = (*tokenizer)->encode(text, {.parse_special = true});
            std::string back;
            for (const TokenId id : ids) {
                back += (*tokenizer)->token_bytes(id, false);
            }
            ASSERT_TRUE(back == text) << sort.name;
        }
        // 2^20 letters are one word: 32 at a time.
        EXPECT_EQ((*tokenizer)->encode(std::string(kTextBytes, 'a'), {}).size(), kTextBytes / 32);
    }
}

TEST(TokenizerWork, SpmTakesOneMebibyteOfEachClass) {
    test::SmallVocabulary vocabulary = test::sentence_piece_vocabulary();
    for (const char* piece : {"▁", "a", "漢"}) {
        std::string run = piece;
        for (int n = 0; n < 5; ++n) {
            run += run;
            vocabulary.add(run, TokenKind::kNormal, static_cast<float>(n));
        }
    }
    vocabulary.add("\n\n", TokenKind::kUserDefined);
    vocabulary.add("<|end|>", TokenKind::kControl);
    const auto tokenizer = vocabulary.load();
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    for (const CharacterClass& sort : kClasses) {
        const std::string text = repeat(sort.unit, kTextBytes);
        const auto ids = (*tokenizer)->encode(text, {.add_special = false, .parse_special = true});
        ASSERT_TRUE((*tokenizer)->decode(ids, false) == text) << sort.name;
    }
    EXPECT_EQ((*tokenizer)->encode(std::string(kTextBytes, 'a'), {.add_special = false}).size(),
              kTextBytes / 32);
}

TEST(TokenizerWork, SpecialTokensThatNestTakeLinearWork) {
    // Every place of the text begins a thousand specials, and the longest never ends.
    test::SmallVocabulary vocabulary = test::byte_level_vocabulary();
    vocabulary.add_merge("a", "b");
    for (std::size_t n = 2; n <= 1000; ++n) {
        vocabulary.add(std::string(n, 'a'), TokenKind::kControl);
    }
    std::string endless(100000, 'a');
    endless.push_back('b');
    vocabulary.add(endless, TokenKind::kControl);
    const auto tokenizer = vocabulary.load();
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    const auto ids = (*tokenizer)->encode(std::string(kTextBytes, 'a'), {.parse_special = true});
    EXPECT_EQ(ids.size(), kTextBytes / 1000 + 1);
    EXPECT_EQ((*tokenizer)->decode(ids, true).size(), kTextBytes);
}

}  // namespace
}  // namespace ballast::tokenizer
