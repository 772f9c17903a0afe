// SPDX-License-Identifier: MIT
// Byte-level byte-pair encoding, `tokenizer.ggml.model` = "gpt2" (Sennrich et al. 2016; Radford et
// al. 2019): a word begins as single bytes, and the pair of the lowest rank merges until none is
// left.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/pretokenize.h"
#include "engine/tokenizer/pretokenizer_rules.h"
#include "engine/tokenizer/vocabulary_tokenizer.h"

namespace ballast::tokenizer {

/// What two neighbouring tokens become, and how soon: lower ranks first.
struct Merge {
    std::uint32_t rank = 0;
    TokenId result = -1;
};

/// The merges by pair, in a hash table with open addressing.
class MergeTable {
  public:
    /// kCorruptFile if a merge is not two known pieces that join to a known one.
    static Result<MergeTable> load(const gguf::Metadata& metadata, const Vocabulary& vocabulary);

    /// Null if the pair, two ids of the vocabulary, does not merge.
    const Merge* find(TokenId left, TokenId right) const;

  private:
    struct Slot {
        std::uint64_t pair = kEmpty;
        Merge merge;
    };
    static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
    std::size_t slot_of(std::uint64_t pair) const;

    std::vector<Slot> slots_;
    int shift_ = 0;  // 64 − log2(slots)
};

class BpeTokenizer final : public VocabularyTokenizer {
  public:
    static Result<std::unique_ptr<Tokenizer>> load(const gguf::Metadata& metadata);

    BpeTokenizer(Vocabulary vocabulary,
                 SpecialTokens special_tokens,
                 MergeTable merges,
                 Pretokenizer pretokenizer,
                 const PretokenizerRule& rule);

  private:
    void encode_stretch(std::string_view text, std::vector<TokenId>& ids) const override;
    std::string normal_bytes(std::string_view piece) const override {
        return alphabet_.unspell(piece);
    }
    bool cleans_up_spaces() const override { return cleans_up_spaces_; }

    MergeTable merges_;
    Pretokenizer pretokenizer_;
    ByteAlphabet alphabet_;
    std::array<TokenId, 256> byte_ids_;  // −1: the vocabulary has no token for that byte
    bool whole_words_first_ = false;
    bool cleans_up_spaces_ = false;
};

}  // namespace ballast::tokenizer
