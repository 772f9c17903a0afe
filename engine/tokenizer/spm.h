// SPDX-License-Identifier: MIT
// SentencePiece's BPE (Kudo and Richardson 2018), `tokenizer.ggml.model` = "llama": a text begins
// as characters, with U+2581 for each space, and the neighbours that join to the piece of the
// highest score merge until none do. What is then not a piece is written as byte tokens.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/vocabulary_tokenizer.h"

namespace ballast::tokenizer {

class SpmTokenizer final : public VocabularyTokenizer {
  public:
    static Result<std::unique_ptr<Tokenizer>> load(const gguf::Metadata& metadata);

    SpmTokenizer(Vocabulary vocabulary, SpecialTokens special_tokens);

  private:
    void encode_stretch(std::string_view text, std::vector<TokenId>& ids) const override;
    std::string normal_bytes(std::string_view piece) const override;
    bool cleans_up_spaces() const override { return false; }

    /// The token of one character that is no piece: its bytes, or else the unknown token.
    void append_bytes(std::string_view character, std::vector<TokenId>& ids) const;

    std::array<TokenId, 256> byte_ids_;  // −1: none
};

}  // namespace ballast::tokenizer
