// SPDX-License-Identifier: MIT
// The simplest vocabulary that can show every rule of prompts.
#include "tests/server/support/fake_tokenizer.h"

#include <array>

namespace ballast::test {

namespace {

constexpr std::array<std::string_view, 4> kControl = {"<s>", "</s>", "<|im_start|>", "<|im_end|>"};

const std::array<std::string, 256>& byte_pieces() {
    static const auto kPieces = [] {
        std::array<std::string, 256> pieces;
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            pieces[i] = std::string(1, static_cast<char>(i));
        }
        return pieces;
    }();
    return kPieces;
}

}  // namespace

std::vector<TokenId> FakeTokenizer::encode(std::string_view text,
                                           tokenizer::EncodeOptions options) const {
    std::vector<TokenId> ids;
    if (options.add_special && adds_bos_) {
        ids.push_back(kBos);
    }
    while (!text.empty()) {
        bool special = false;
        for (std::size_t i = 0; options.parse_special && i < kControl.size() && !special; ++i) {
            if (text.starts_with(kControl[i])) {
                ids.push_back(static_cast<TokenId>(kBos + static_cast<TokenId>(i)));
                text.remove_prefix(kControl[i].size());
                special = true;
            }
        }
        if (!special) {
            ids.push_back(static_cast<unsigned char>(text.front()));
            text.remove_prefix(1);
        }
    }
    return ids;
}

std::string FakeTokenizer::token_bytes(TokenId id, bool render_special) const {
    return id >= kBos && !render_special ? std::string{} : std::string(piece(id));
}

std::string FakeTokenizer::decode(std::span<const TokenId> ids, bool render_special) const {
    std::string text;
    for (const TokenId id : ids) {
        text += token_bytes(id, render_special);
    }
    return text;
}

std::string_view FakeTokenizer::piece(TokenId id) const {
    return id >= kBos ? kControl.at(static_cast<std::size_t>(id - kBos))
                      : byte_pieces().at(static_cast<std::size_t>(id));
}

tokenizer::TokenKind FakeTokenizer::kind(TokenId id) const {
    return id >= kBos ? tokenizer::TokenKind::kControl : tokenizer::TokenKind::kNormal;
}

}  // namespace ballast::test
