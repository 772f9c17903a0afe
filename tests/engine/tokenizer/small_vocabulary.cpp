// SPDX-License-Identifier: MIT
#include "tests/engine/tokenizer/small_vocabulary.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "engine/gguf/parse.h"
#include "engine/tokenizer/byte_alphabet.h"

namespace ballast::test {

using tokenizer::TokenKind;

TokenId SmallVocabulary::add(const std::string& token, TokenKind kind, float score) {
    tokens.push_back(token);
    kinds.push_back(static_cast<std::int32_t>(kind));
    if (!scores.empty() || model == "llama") {
        scores.push_back(score);
    }
    return static_cast<TokenId>(tokens.size()) - 1;
}

void SmallVocabulary::add_merge(const std::string& left, const std::string& right) {
    merges.push_back(left + " " + right);
    if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end()) {
        add(left + right);
    }
}

Result<std::unique_ptr<tokenizer::Tokenizer>> SmallVocabulary::load() const {
    GgufWriter writer = more;
    writer.add("tokenizer.ggml.model", model).add("tokenizer.ggml.tokens", tokens);
    if (!pre.empty()) {
        writer.add("tokenizer.ggml.pre", pre);
    }
    if (!kinds.empty()) {
        writer.add("tokenizer.ggml.token_type", kinds);
    }
    if (!scores.empty()) {
        writer.add("tokenizer.ggml.scores", scores);
    }
    if (!merges.empty()) {
        writer.add("tokenizer.ggml.merges", merges);
    }
    const std::string bytes = writer.bytes();
    BALLAST_TRY(const auto contents, gguf::parse(std::as_bytes(std::span(bytes)), "small.gguf"));
    return tokenizer::Tokenizer::load(contents.metadata);
}

SmallVocabulary byte_level_vocabulary(std::string_view pre) {
    SmallVocabulary vocabulary;
    vocabulary.pre = pre;
    const tokenizer::ByteAlphabet alphabet;
    for (int byte = 0; byte < 256; ++byte) {
        vocabulary.add(std::string(alphabet.spelling(static_cast<unsigned char>(byte))));
    }
    return vocabulary;
}

SmallVocabulary sentence_piece_vocabulary() {
    SmallVocabulary vocabulary;
    vocabulary.model = "llama";
    vocabulary.pre = "";
    vocabulary.add("<unk>", TokenKind::kUnknown);
    vocabulary.add("<s>", TokenKind::kControl);
    vocabulary.add("</s>", TokenKind::kControl);
    for (int byte = 0; byte < 256; ++byte) {
        vocabulary.add(fmt::format("<0x{:02X}>", byte), TokenKind::kByte);
    }
    for (const char* piece : {"▁", "a", "b", "c", "d", "e"}) {
        vocabulary.add(piece, TokenKind::kNormal, -100.0F);
    }
    vocabulary.more.add("tokenizer.ggml.add_space_prefix", false);
    return vocabulary;
}

TokenId id_of(const tokenizer::Tokenizer& tokenizer, std::string_view piece) {
    for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
        if (tokenizer.piece(id) == piece) {
            return id;
        }
    }
    return -1;
}

}  // namespace ballast::test
