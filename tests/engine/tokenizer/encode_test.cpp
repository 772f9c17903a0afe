// SPDX-License-Identifier: MIT
// Encoding with small vocabularies against definitions that are slow and plain.
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "engine/base/rng.h"
#include "tests/engine/tokenizer/small_vocabulary.h"

namespace ballast::tokenizer {
namespace {

using test::byte_level_vocabulary;
using test::id_of;
using test::sentence_piece_vocabulary;
using test::SmallVocabulary;

std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
    std::vector<std::string> pieces;
    for (const TokenId id : ids) {
        pieces.emplace_back(tokenizer.piece(id));
    }
    return pieces;
}

std::string random_text(Rng& rng, const std::vector<std::string>& alphabet, std::uint64_t max) {
    std::string text;
    for (std::uint64_t n = rng.below(max + 1); n > 0; --n) {
        text += alphabet[rng.below(alphabet.size())];
    }
    return text;
}

/// BPE by its definition: merge the leftmost pair of the lowest rank, and again.
std::vector<std::string> merge_plainly(std::vector<std::string> symbols,
                                       const std::vector<std::string>& merges) {
    while (true) {
        std::size_t best = merges.size();
        std::size_t at = 0;
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
            for (std::size_t rank = 0; rank < best; ++rank) {
                if (merges[rank] == symbols[i] + " " + symbols[i + 1]) {
                    best = rank;
                    at = i;
                }
            }
        }
        if (best == merges.size()) {
            return symbols;
        }
        symbols[at] += symbols[at + 1];
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
}

TEST(Bpe, MergesAsTheDefinitionDoes) {
    Rng rng(3);
    for (int round = 0; round < 60; ++round) {
        SmallVocabulary vocabulary = byte_level_vocabulary();
        std::vector<std::string> known = {"a", "b", "c"};
        for (int n = 0; n < 12; ++n) {
            const std::string left = known[rng.below(known.size())];
            const std::string right = known[rng.below(known.size())];
            vocabulary.add_merge(left, right);
            known.push_back(left + right);
        }
        const auto tokenizer = vocabulary.load();
        ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
        for (int n = 0; n < 50; ++n) {
            const std::string word = random_text(rng, {"a", "b", "c"}, 24);
            std::vector<std::string> letters;
            for (const char c : word) {
                letters.emplace_back(1, c);
            }
            ASSERT_EQ(pieces_of(**tokenizer, (*tokenizer)->encode(word, {})),
                      merge_plainly(letters, vocabulary.merges))
                << word;
        }
    }
}

TEST(Bpe, LeavesOutBytesThatHaveNoTokenAndDoesNotMergeAcrossThem) {
    SmallVocabulary vocabulary = byte_level_vocabulary();
    vocabulary.tokens['x'] = "<nothing>";
    vocabulary.add_merge("a", "b");
    const auto tokenizer = vocabulary.load();
    EXPECT_EQ((*tokenizer)->encode("axbxxab", {}), (std::vector<TokenId>{'a', 'b', 256}));
}

TEST(Bpe, TakesWholeWordsFirstWhereTheModelDoes) {
    for (const bool whole_words_first : {false, true}) {
        SmallVocabulary vocabulary =
            byte_level_vocabulary(whole_words_first ? "llama-bpe" : "dbrx");
        vocabulary.more.add("tokenizer.ggml.add_bos_token", false);
        vocabulary.add_merge("a", "b");
        const TokenId word = vocabulary.add("Ġabc");  // no merges lead to it
        const auto tokenizer = vocabulary.load();
        const auto expected =
            whole_words_first ? std::vector<TokenId>{word} : std::vector<TokenId>{' ', 256, 'c'};
        EXPECT_EQ((*tokenizer)->encode(" abc", {}), expected);
    }
}

TEST(Bpe, GivesBrokenUtf8BackByteByByte) {
    SmallVocabulary vocabulary = byte_level_vocabulary();
    vocabulary.add_merge("a", "b");
    const auto tokenizer = vocabulary.load();
    const std::string broken = "ab\xFF\xC3(\xE2\x82 ab\xF0\x9F";
    const auto ids = (*tokenizer)->encode(broken, {});
    EXPECT_EQ((*tokenizer)->decode(ids, false), broken);
    EXPECT_EQ(ids.front(), 256);
}

/// SentencePiece by its definition: merge the leftmost neighbours whose joint piece has the highest
/// score, and again.
std::vector<std::string> merge_by_score(std::vector<std::string> symbols,
                                        const std::map<std::string, float>& scores) {
    while (true) {
        float best = -std::numeric_limits<float>::infinity();
        std::size_t at = symbols.size();
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
            const auto found = scores.find(symbols[i] + symbols[i + 1]);
            if (found != scores.end() && found->second > best) {
                best = found->second;
                at = i;
            }
        }
        if (at == symbols.size()) {
            return symbols;
        }
        symbols[at] += symbols[at + 1];
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
}

TEST(Spm, MergesAsTheDefinitionDoes) {
    const std::vector<std::string> alphabet = {"a", "b", "c", "▁"};
    Rng rng(4);
    for (int round = 0; round < 60; ++round) {
        SmallVocabulary vocabulary = sentence_piece_vocabulary();
        std::map<std::string, float> scores;
        std::vector<std::string> known = alphabet;
        for (int n = 0; n < 14; ++n) {
            const std::string piece =
                known[rng.below(known.size())] + known[rng.below(known.size())];
            known.push_back(piece);
            // Few different scores, so that ties are common.
            if (scores.emplace(piece, -static_cast<float>(rng.below(6))).second) {
                vocabulary.add(piece, TokenKind::kNormal, scores[piece]);
            }
        }
        const auto tokenizer = vocabulary.load();
        ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
        for (int n = 0; n < 50; ++n) {
            std::vector<std::string> symbols;
            std::string text;
            for (std::uint64_t left = rng.below(24); left > 0; --left) {
                symbols.push_back(alphabet[rng.below(alphabet.size())]);
                text += symbols.back() == "▁" ? " " : symbols.back();
            }
            ASSERT_EQ(pieces_of(**tokenizer, (*tokenizer)->encode(text, {.add_special = false})),
                      merge_by_score(symbols, scores))
                << text;
        }
    }
}

TEST(Spm, WritesUnknownCharactersAsBytesAndGivesThemBack) {
    const auto tokenizer = sentence_piece_vocabulary().load();
    const std::string text = "a\xC3\xA9 \xFF\xE2\x82";
    const auto ids = (*tokenizer)->encode(text, {.add_special = false});
    EXPECT_EQ(
        pieces_of(**tokenizer, ids),
        (std::vector<std::string>{"a", "<0xC3>", "<0xA9>", "▁", "<0xFF>", "<0xE2>", "<0x82>"}));
    EXPECT_EQ((*tokenizer)->decode(ids, false), text);
}

TEST(Spm, WritesUnknownForACharacterWithoutByteTokens) {
    SmallVocabulary vocabulary = sentence_piece_vocabulary();
    for (std::size_t id = 3; id < 259; ++id) {
        vocabulary.tokens[id] = "spare " + std::to_string(id);
        vocabulary.kinds[id] = static_cast<std::int32_t>(TokenKind::kUnused);
    }
    const auto tokenizer = vocabulary.load();
    EXPECT_EQ(pieces_of(**tokenizer, (*tokenizer)->encode("a\xC3\xA9z", {})),
              (std::vector<std::string>{"<s>", "a", "<unk>", "<unk>"}));
}

TEST(Spm, PutsASpaceBeforeTheFirstWordAndAfterSpecialTokens) {
    SmallVocabulary vocabulary = sentence_piece_vocabulary();
    vocabulary.more = {};
    const auto tokenizer = vocabulary.load();
    const auto ids = (*tokenizer)->encode("a<s>b", {.add_special = false, .parse_special = true});
    EXPECT_EQ(pieces_of(**tokenizer, ids), (std::vector<std::string>{"▁", "a", "<s>", "▁", "b"}));
    EXPECT_EQ((*tokenizer)->decode(ids, true), "a<s> b");
    EXPECT_EQ((*tokenizer)->decode(ids, false), "a b");
    EXPECT_TRUE((*tokenizer)->encode("", {.add_special = false}).empty());
    EXPECT_EQ((*tokenizer)->encode("", {}), std::vector<TokenId>{1});
}

TEST(SpecialTokens, AreReadFromATextOnlyWhenAsked) {
    SmallVocabulary vocabulary = byte_level_vocabulary();
    vocabulary.add_merge("a", "b");
    const TokenId control = vocabulary.add("<go>", TokenKind::kControl);
    const TokenId user = vocabulary.add("[tag]", TokenKind::kUserDefined);
    const auto tokenizer = vocabulary.load();
    EXPECT_EQ((*tokenizer)->encode("<go>[tag]", {.parse_special = true}),
              (std::vector<TokenId>{control, user}));
    EXPECT_EQ((*tokenizer)->encode("<go>[tag]", {.parse_special = false}),
              (std::vector<TokenId>{'<', 'g', 'o', '>', user}));
    EXPECT_EQ((*tokenizer)->decode(std::vector<TokenId>{control, user}, false), "[tag]");
    EXPECT_EQ((*tokenizer)->decode(std::vector<TokenId>{control, user}, true), "<go>[tag]");
}

TEST(SpecialTokens, AreTheLongestAtTheFirstPlace) {
    Rng rng(5);
    const std::vector<std::string> alphabet = {"<", "|", ">"};
    for (int round = 0; round < 200; ++round) {
        SmallVocabulary vocabulary = byte_level_vocabulary();
        vocabulary.add_merge("a", "b");
        std::vector<std::string> specials;
        for (int n = 0; n < 6; ++n) {
            const std::string piece = random_text(rng, alphabet, 5);
            if (piece.size() > 1 &&
                std::find(specials.begin(), specials.end(), piece) == specials.end()) {
                specials.push_back(piece);
                vocabulary.add(piece, TokenKind::kControl);
            }
        }
        const auto tokenizer = vocabulary.load();
        const std::string text = random_text(rng, alphabet, 30);
        std::vector<std::string> expected;
        for (std::size_t at = 0; at < text.size();) {
            std::string longest = text.substr(at, 1);
            for (const std::string& piece : specials) {
                if (text.compare(at, piece.size(), piece) == 0 && piece.size() > longest.size()) {
                    longest = piece;
                }
            }
            expected.push_back(longest);
            at += longest.size();
        }
        ASSERT_EQ(pieces_of(**tokenizer, (*tokenizer)->encode(text, {.parse_special = true})),
                  expected)
            << text;
    }
}

TEST(SpecialTokens, SwallowWhiteSpaceAfterThemInPhi3) {
    for (const bool is_phi3 : {false, true}) {
        SmallVocabulary vocabulary = sentence_piece_vocabulary();
        vocabulary.add("<|user|>", TokenKind::kControl);
        vocabulary.more.add("general.name", is_phi3 ? "My Phi-3 mini" : "Other");
        const auto tokenizer = vocabulary.load();
        const auto ids =
            (*tokenizer)
                ->encode("<|user|> \n a<s> b", {.add_special = false, .parse_special = true});
        const auto expected = is_phi3 ? std::vector<std::string>{"<|user|>", "a", "<s>", "▁", "b"}
                                      : std::vector<std::string>{
                                            "<|user|>", "▁", "<0x0A>", "▁", "a", "<s>", "▁", "b"};
        EXPECT_EQ(pieces_of(**tokenizer, ids), expected);
    }
}

TEST(SpecialTokens, AddBeginningAndEndAsTheFileSays) {
    SmallVocabulary vocabulary = byte_level_vocabulary();
    vocabulary.add_merge("a", "b");
    vocabulary.more.add("tokenizer.ggml.bos_token_id", std::uint32_t{1})
        .add("tokenizer.ggml.eos_token_id", std::uint32_t{2})
        .add("tokenizer.ggml.add_bos_token", true)
        .add("tokenizer.ggml.add_eos_token", true);
    const auto tokenizer = vocabulary.load();
    EXPECT_EQ((*tokenizer)->encode("ab", {}), (std::vector<TokenId>{1, 256, 2}));
    EXPECT_EQ((*tokenizer)->encode("", {}), (std::vector<TokenId>{1, 2}));
    EXPECT_EQ((*tokenizer)->encode("ab", {.add_special = false}), std::vector<TokenId>{256});
}

}  // namespace
}  // namespace ballast::tokenizer
