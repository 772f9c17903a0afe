// SPDX-License-Identifier: MIT
// A vocabulary that is not right is refused with one sentence that names the key.
#include <limits>

#include <gtest/gtest.h>

#include "tests/engine/tokenizer/small_vocabulary.h"

namespace ballast::tokenizer {
namespace {

using test::byte_level_vocabulary;
using test::sentence_piece_vocabulary;
using test::SmallVocabulary;

testing::AssertionResult refused(const SmallVocabulary& vocabulary,
                                 ErrorCode code,
                                 std::string_view part) {
    const auto result = vocabulary.load();
    if (result) {
        return testing::AssertionFailure() << "it was accepted";
    }
    if (result.error().code != code || result.error().message.find(part) == std::string::npos) {
        return testing::AssertionFailure() << result.error().message;
    }
    return testing::AssertionSuccess();
}

SmallVocabulary bpe_with_merge() {
    SmallVocabulary vocabulary = byte_level_vocabulary();
    vocabulary.add_merge("a", "b");
    return vocabulary;
}

TEST(TokenizerLoad, AcceptsTheVocabulariesThatTheTestsChange) {
    EXPECT_TRUE(bpe_with_merge().load().has_value());
    EXPECT_TRUE(sentence_piece_vocabulary().load().has_value());
}

TEST(TokenizerLoad, RefusesFamiliesAndPretokenizersItDoesNotKnow) {
    SmallVocabulary vocabulary = bpe_with_merge();
    vocabulary.model = "bert";
    EXPECT_TRUE(refused(vocabulary, ErrorCode::kUnsupported, "tokenizer.ggml.model is 'bert'"));
    vocabulary = bpe_with_merge();
    vocabulary.pre = "made-up";
    EXPECT_TRUE(refused(vocabulary, ErrorCode::kUnsupported, "tokenizer.ggml.pre is 'made-up'"));
}

TEST(TokenizerLoad, RefusesAVocabularyWithoutTokens) {
    SmallVocabulary vocabulary = bpe_with_merge();
    vocabulary.tokens.clear();
    vocabulary.kinds.clear();
    EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, "tokenizer.ggml.tokens"));
}

TEST(TokenizerLoad, RefusesMissingListsAndListsOfUnequalLength) {
    SmallVocabulary vocabulary = bpe_with_merge();
    vocabulary.merges.clear();
    EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, "tokenizer.ggml.merges"));
    vocabulary = bpe_with_merge();
    vocabulary.kinds.pop_back();
    EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, "tokenizer.ggml.token_type"));
    vocabulary = sentence_piece_vocabulary();
    vocabulary.scores.pop_back();
    EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, "tokenizer.ggml.scores"));
    vocabulary.scores.clear();
    EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, "tokenizer.ggml.scores"));
    vocabulary = sentence_piece_vocabulary();
    vocabulary.scores[5] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, "tokenizer.ggml.scores[5]"));
}

TEST(TokenizerLoad, RefusesMergesThatAreNotTwoKnownPieces) {
    for (const char* merge : {"", "ab", " b", "a ", "a zz", "zz b", "b a"}) {
        SmallVocabulary vocabulary = bpe_with_merge();
        vocabulary.merges.emplace_back(merge);
        EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, "tokenizer.ggml.merges[1]"))
            << merge;
    }
}

TEST(TokenizerLoad, RefusesByteTokensThatSpellNoByte) {
    for (const char* piece : {"<0x-1>",
                              "<0x0>",
                              "<0x000>",
                              "<0xGG>",
                              "<0x 1>",
                              "0x41",
                              "<0x41",
                              "<0X41>",
                              "",
                              "<0x4G>"}) {
        SmallVocabulary vocabulary = sentence_piece_vocabulary();
        vocabulary.tokens[10] = piece;
        EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, "tokenizer.ggml.tokens[10]"))
            << piece;
    }
}

TEST(TokenizerLoad, RefusesSpecialIdsOutsideTheVocabulary) {
    for (const char* name : {"bos", "eos", "eot", "eom", "unknown", "fim_pre", "fim_pad"}) {
        const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
        for (const std::int32_t id : {-1,
                                      257,
                                      std::numeric_limits<std::int32_t>::max(),
                                      std::numeric_limits<std::int32_t>::min()}) {
            SmallVocabulary vocabulary = bpe_with_merge();
            vocabulary.more.add(key, id);
            EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, key)) << id;
        }
        SmallVocabulary vocabulary = bpe_with_merge();
        vocabulary.more.add(key, std::uint32_t{0xFFFFFFFF});
        EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, key));
        vocabulary = bpe_with_merge();
        vocabulary.more.add(key, "2");
        EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, key));
        vocabulary = bpe_with_merge();
        vocabulary.more.add(key, std::uint32_t{256});
        EXPECT_TRUE(vocabulary.load().has_value());
    }
}

TEST(TokenizerLoad, RefusesToAddATokenThatTheFileDoesNotName) {
    SmallVocabulary vocabulary = bpe_with_merge();
    vocabulary.more.add("tokenizer.ggml.add_bos_token", true);
    EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, "tokenizer.ggml.bos_token_id"));
    vocabulary = bpe_with_merge();
    vocabulary.more.add("tokenizer.ggml.add_eos_token", true);
    EXPECT_TRUE(refused(vocabulary, ErrorCode::kCorruptFile, "tokenizer.ggml.eos_token_id"));
}

TEST(TokenizerLoad, RefusesSpecialTokensOfMegabytes) {
    SmallVocabulary vocabulary = bpe_with_merge();
    vocabulary.add(std::string(9 << 20, 'x'), TokenKind::kControl);
    EXPECT_TRUE(refused(vocabulary, ErrorCode::kUnsupported, "tokenizer.ggml.tokens"));
    // A normal token of one MiB is only odd.
    vocabulary = bpe_with_merge();
    vocabulary.add(std::string(1 << 20, 'x'));
    ASSERT_TRUE(vocabulary.load().has_value());
}

TEST(TokenizerLoad, LivesWithEmptyAndRepeatedPiecesAndUnknownKinds) {
    SmallVocabulary vocabulary = bpe_with_merge();
    const TokenId empty = vocabulary.add("");
    const TokenId again = vocabulary.add("ab");
    const TokenId odd = vocabulary.add("odd", static_cast<TokenKind>(77));
    const auto tokenizer = vocabulary.load();
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    EXPECT_EQ((*tokenizer)->piece(empty), "");
    EXPECT_EQ((*tokenizer)->token_bytes(empty, true), "");
    EXPECT_EQ((*tokenizer)->encode("ab", {}), std::vector<TokenId>{256});
    EXPECT_EQ((*tokenizer)->token_bytes(again, false), "ab");
    EXPECT_EQ((*tokenizer)->kind(odd), TokenKind::kUnused);
    EXPECT_EQ((*tokenizer)->token_bytes(odd, true), "");
}

TEST(TokenizerLoad, AnswersForIdsOutsideTheVocabulary) {
    const auto tokenizer = bpe_with_merge().load();
    ASSERT_TRUE(tokenizer.has_value());
    for (const TokenId id :
         {-1, 257, std::numeric_limits<TokenId>::min(), std::numeric_limits<TokenId>::max()}) {
        EXPECT_EQ((*tokenizer)->token_bytes(id, true), "");
        EXPECT_EQ((*tokenizer)->piece(id), "");
        EXPECT_EQ((*tokenizer)->kind(id), TokenKind::kUnused);
        EXPECT_FALSE((*tokenizer)->is_end_of_generation(id));
        EXPECT_EQ((*tokenizer)->decode(std::vector<TokenId>{97, id, 98}, true), "ab");
    }
}

TEST(TokenizerLoad, TakesDefaultsOfTheFamilyAndThenTheKeys) {
    auto tokenizer = bpe_with_merge().load();
    EXPECT_FALSE((*tokenizer)->adds_bos());
    EXPECT_EQ((*tokenizer)->bos(), -1);
    EXPECT_EQ((*tokenizer)->eos(), -1);
    // Llama 3's text begins with BOS though its files have no such flag.
    SmallVocabulary llama3 = byte_level_vocabulary("llama-bpe");
    llama3.add_merge("a", "b");
    llama3.more.add("tokenizer.ggml.bos_token_id", std::uint32_t{1});
    tokenizer = llama3.load();
    EXPECT_TRUE((*tokenizer)->adds_bos());
    llama3.more.add("tokenizer.ggml.add_bos_token", false);
    tokenizer = llama3.load();
    EXPECT_FALSE((*tokenizer)->adds_bos());
    SmallVocabulary llama = sentence_piece_vocabulary();
    tokenizer = llama.load();
    EXPECT_TRUE((*tokenizer)->adds_bos());
    EXPECT_EQ((*tokenizer)->bos(), 1);
    EXPECT_EQ((*tokenizer)->eos(), 2);
    EXPECT_FALSE((*tokenizer)->adds_space_prefix());
    llama.more = {};
    tokenizer = llama.load();
    EXPECT_TRUE((*tokenizer)->adds_space_prefix());
}

TEST(TokenizerLoad, KnowsTheEndByKeyAndBySpelling) {
    SmallVocabulary vocabulary = bpe_with_merge();
    const TokenId by_spelling = vocabulary.add("<|im_end|>");  // normal: wrong, but it happens
    const TokenId turn = vocabulary.add("<end_of_turn>", TokenKind::kControl);
    const TokenId start = vocabulary.add("<|im_start|>", TokenKind::kControl);
    const TokenId by_key = vocabulary.add("<stop>", TokenKind::kControl);
    const TokenId eos = vocabulary.add("<fin>", TokenKind::kControl);
    vocabulary.more.add("tokenizer.ggml.eot_token_id", static_cast<std::uint32_t>(by_key))
        .add("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(eos));
    const auto tokenizer = vocabulary.load();
    for (TokenId id = 0; id < (*tokenizer)->vocabulary_size(); ++id) {
        const bool ends = id == by_spelling || id == turn || id == by_key || id == eos;
        EXPECT_EQ((*tokenizer)->is_end_of_generation(id), ends) << id;
    }
    EXPECT_FALSE((*tokenizer)->is_end_of_generation(start));
    // Its kind is put right: it is hidden in replies and not read from a user's text.
    EXPECT_EQ((*tokenizer)->kind(by_spelling), TokenKind::kControl);
    EXPECT_EQ((*tokenizer)->token_bytes(by_spelling, false), "");
}

TEST(TokenizerLoad, DoesNotEndAtHarmonysEndOfMessage) {
    SmallVocabulary vocabulary = bpe_with_merge();
    const TokenId end = vocabulary.add("<|end|>", TokenKind::kControl);
    const TokenId channel = vocabulary.add("<|channel|>", TokenKind::kControl);
    auto tokenizer = vocabulary.load();
    EXPECT_TRUE((*tokenizer)->is_end_of_generation(end));
    const TokenId back = vocabulary.add("<|return|>", TokenKind::kControl);
    const TokenId call = vocabulary.add("<|call|>", TokenKind::kControl);
    tokenizer = vocabulary.load();
    EXPECT_FALSE((*tokenizer)->is_end_of_generation(end));
    EXPECT_TRUE((*tokenizer)->is_end_of_generation(back));
    EXPECT_TRUE((*tokenizer)->is_end_of_generation(call));
    EXPECT_EQ((*tokenizer)->token_bytes(channel, false), "<|channel|>");
}

}  // namespace
}  // namespace ballast::tokenizer
