// SPDX-License-Identifier: MIT
// Streaming must give the same text as decoding at once, and never a part of a character.
#include "engine/tokenizer/stream_decoder.h"

#include <gtest/gtest.h>

#include "engine/base/rng.h"
#include "engine/base/utf8.h"
#include "tests/engine/tokenizer/small_vocabulary.h"

namespace ballast::tokenizer {
namespace {

using test::byte_level_vocabulary;
using test::sentence_piece_vocabulary;
using test::SmallVocabulary;

std::unique_ptr<Tokenizer> bytes_only() {
    SmallVocabulary vocabulary = byte_level_vocabulary("smollm");
    vocabulary.add_merge("a", "b");
    vocabulary.add("<go>", TokenKind::kControl);  // id 257
    return std::move(*vocabulary.load());
}

std::string stream(const Tokenizer& tokenizer,
                   const std::vector<TokenId>& ids,
                   StreamDecoderOptions options) {
    StreamDecoder decoder(tokenizer, options);
    std::string text;
    for (const TokenId id : ids) {
        const std::string part = decoder.feed(id);
        EXPECT_TRUE(utf8_is_valid(part));
        text += part;
    }
    return text + decoder.finish();
}

TEST(StreamDecoder, HoldsACharacterBackUntilItIsWhole) {
    const auto tokenizer = bytes_only();
    StreamDecoder decoder(*tokenizer);
    EXPECT_EQ(decoder.feed('x'), "x");
    EXPECT_EQ(decoder.feed(0xF0), "");
    EXPECT_EQ(decoder.feed(0x9F), "");
    EXPECT_EQ(decoder.feed(0x98), "");
    EXPECT_EQ(decoder.feed(0x80), "\xF0\x9F\x98\x80");
    EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, ReplacesWhatCannotBecomeACharacter) {
    const auto tokenizer = bytes_only();
    StreamDecoder decoder(*tokenizer);
    EXPECT_EQ(decoder.feed(0xE2), "");
    EXPECT_EQ(decoder.feed(0x82), "");
    EXPECT_EQ(decoder.feed('x'), "\xEF\xBF\xBDx");
    EXPECT_EQ(decoder.feed(0xFF), "\xEF\xBF\xBD");
    EXPECT_EQ(decoder.feed(0xC3), "");
    EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
    EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, GivesTheTextOfDecodeWithBrokenCharactersReplaced) {
    const auto tokenizer = bytes_only();
    Rng rng(6);
    const std::vector<TokenId> alphabet = {
        'a', ' ', 0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80, 0xFF, 256, 257};
    for (int round = 0; round < 2000; ++round) {
        std::vector<TokenId> ids;
        for (std::uint64_t n = rng.below(20); n > 0; --n) {
            ids.push_back(alphabet[rng.below(alphabet.size())]);
        }
        for (const bool render_special : {false, true}) {
            ASSERT_EQ(stream(*tokenizer, ids, {.render_special = render_special}),
                      utf8_replace_invalid(tokenizer->decode(ids, render_special)));
        }
    }
}

TEST(StreamDecoder, StripsTheFirstSpaceOnlyWhereATextBegins) {
    SmallVocabulary vocabulary = sentence_piece_vocabulary();
    vocabulary.more = {};
    const auto tokenizer = std::move(*vocabulary.load());
    const std::vector<TokenId> ids = tokenizer->encode("a a", {.add_special = false});
    EXPECT_EQ(tokenizer->decode(ids, false), "a a");
    EXPECT_EQ(stream(*tokenizer, ids, {.begins_text = true}), "a a");
    EXPECT_EQ(stream(*tokenizer, ids, {.begins_text = false}), " a a");
    // A vocabulary that adds no space has none to strip.
    const auto without = std::move(*sentence_piece_vocabulary().load());
    const std::vector<TokenId> spaced = without->encode(" a", {.add_special = false});
    EXPECT_EQ(stream(*without, spaced, {.begins_text = true}), " a");
}

}  // namespace
}  // namespace ballast::tokenizer
