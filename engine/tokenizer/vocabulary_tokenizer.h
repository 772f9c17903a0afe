// SPDX-License-Identifier: MIT
// What both tokenizer families share: special tokens cut a text into stretches, the family encodes
// each stretch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/special_tokens.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace ballast::tokenizer {

/// A tokenizer over a Vocabulary; the subclasses are the families.
class VocabularyTokenizer : public Tokenizer {
  public:
    std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const final;
    std::string token_bytes(TokenId id, bool render_special) const final;
    std::string decode(std::span<const TokenId> ids, bool render_special) const final;
    int vocabulary_size() const final { return vocabulary_.size(); }
    std::string_view piece(TokenId id) const final;
    TokenKind kind(TokenId id) const final;
    TokenId bos() const final { return vocabulary_.bos(); }
    TokenId eos() const final { return vocabulary_.eos(); }
    bool is_end_of_generation(TokenId id) const final {
        return vocabulary_.is_end_of_generation(id);
    }
    bool adds_bos() const final { return vocabulary_.adds_bos(); }
    bool adds_space_prefix() const final { return vocabulary_.adds_space_prefix(); }

  protected:
    VocabularyTokenizer(Vocabulary vocabulary, SpecialTokens special_tokens)
        : vocabulary_(std::move(vocabulary)), special_tokens_(std::move(special_tokens)) {}

    const Vocabulary& vocabulary() const { return vocabulary_; }

    /// Appends the ids of a text without special tokens. Nothing, or a special token, stands
    /// before it.
    virtual void encode_stretch(std::string_view text, std::vector<TokenId>& ids) const = 0;
    /// The bytes of a token of kind kNormal.
    virtual std::string normal_bytes(std::string_view piece) const = 0;
    /// Whether decode() takes out spaces as clean_up_spaces() does.
    virtual bool cleans_up_spaces() const = 0;

  private:
    Vocabulary vocabulary_;
    SpecialTokens special_tokens_;
};

/// Takes out the spaces that GPT-2's decoder does: before . , ! ? and before 's 'm 're 've, and
/// around an apostrophe that stands alone.
std::string clean_up_spaces(std::string_view text);

}  // namespace ballast::tokenizer
