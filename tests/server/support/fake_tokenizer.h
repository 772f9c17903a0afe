// SPDX-License-Identifier: MIT
// One token a byte, and four control tokens.
#pragma once

#include "engine/tokenizer/tokenizer.h"

namespace ballast::test {

/// Ids 0…255 are bytes; then <s>, </s>, <|im_start|>, <|im_end|>.
class FakeTokenizer final : public tokenizer::Tokenizer {
  public:
    static constexpr TokenId kBos = 256;
    static constexpr TokenId kEos = 257;
    static constexpr TokenId kTurnStart = 258;
    static constexpr TokenId kTurnEnd = 259;
    static constexpr int kVocabulary = 260;

    explicit FakeTokenizer(bool adds_bos = true) : adds_bos_(adds_bos) {}

    std::vector<TokenId> encode(std::string_view text,
                                tokenizer::EncodeOptions options) const override;
    std::string token_bytes(TokenId id, bool render_special) const override;
    std::string decode(std::span<const TokenId> ids, bool render_special) const override;
    int vocabulary_size() const override { return kVocabulary; }
    std::string_view piece(TokenId id) const override;
    tokenizer::TokenKind kind(TokenId id) const override;
    TokenId bos() const override { return kBos; }
    TokenId eos() const override { return kEos; }
    bool is_end_of_generation(TokenId id) const override { return id == kEos || id == kTurnEnd; }
    bool adds_bos() const override { return adds_bos_; }

  private:
    bool adds_bos_;
};

}  // namespace ballast::test
