// SPDX-License-Identifier: MIT
// Vocabularies of a few tokens, built in memory as GGUF files and loaded as any other.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "tests/support/gguf_writer.h"

namespace ballast::test {

/// What goes into the file; tests change it before load().
struct SmallVocabulary {
    std::string model = "gpt2";
    std::string pre = "gpt-2";  // "": no such key
    std::vector<std::string> tokens;
    std::vector<std::int32_t> kinds;
    std::vector<float> scores;        // written if not empty
    std::vector<std::string> merges;  // written if not empty
    GgufWriter more;                  // further keys

    /// Adds a token and returns its id.
    TokenId add(const std::string& token,
                tokenizer::TokenKind kind = tokenizer::TokenKind::kNormal,
                float score = 0.0F);
    /// Adds a merge and the token it makes, if there is none yet.
    void add_merge(const std::string& left, const std::string& right);

    Result<std::unique_ptr<tokenizer::Tokenizer>> load() const;
};

/// Byte-level BPE: 256 bytes, ids 0 to 255 in order of the byte, and no merges.
SmallVocabulary byte_level_vocabulary(std::string_view pre = "gpt-2");

/// SentencePiece: <unk> <s> </s>, 256 byte tokens (ids 3 to 258), then ▁ and the letters a to e.
/// No space before the first word unless the test adds one.
SmallVocabulary sentence_piece_vocabulary();

/// The id of a token's piece; −1.
TokenId id_of(const tokenizer::Tokenizer& tokenizer, std::string_view piece);

}  // namespace ballast::test
