// SPDX-License-Identifier: MIT
// Encoding: special tokens first, then each stretch between them. Decoding: token by token.
#include "engine/tokenizer/vocabulary_tokenizer.h"

namespace ballast::tokenizer {

namespace {

// C's isspace() in the "C" locale, which is what a token that swallows white space takes.
bool is_ascii_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

std::string drop_spaces_before_marks(std::string_view text) {
    std::string kept;
    kept.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const bool is_mark = c == '?' || c == '!' || c == '.' || c == ',';
        if (is_mark && i > 0 && text[i - 1] == ' ') {
            kept.pop_back();
        }
        kept.push_back(c);
    }
    return kept;
}

std::string join_lone_apostrophes(std::string_view text) {
    std::string kept;
    kept.reserve(text.size());
    bool space_is_taken = false;  // the character before is a space that an apostrophe took
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool is_lone = text[i] == '\'' && i > 0 && i + 1 < text.size() &&
                             text[i - 1] == ' ' && text[i + 1] == ' ' && !space_is_taken;
        if (is_lone) {
            kept.back() = '\'';
            ++i;
        } else {
            kept.push_back(text[i]);
        }
        space_is_taken = is_lone;
    }
    return kept;
}

std::string join_contractions(std::string_view text) {
    std::string kept;
    kept.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const std::string_view rest = text.substr(i);
        const bool joins = rest.substr(0, 2) == "'s" || rest.substr(0, 2) == "'m" ||
                           rest.substr(0, 3) == "'re" || rest.substr(0, 3) == "'ve";
        if (joins && i > 0 && text[i - 1] == ' ') {
            kept.pop_back();
        }
        kept.push_back(text[i]);
    }
    return kept;
}

}  // namespace

std::string clean_up_spaces(std::string_view text) {
    return join_contractions(join_lone_apostrophes(drop_spaces_before_marks(text)));
}

std::vector<TokenId> VocabularyTokenizer::encode(std::string_view text,
                                                 EncodeOptions options) const {
    std::vector<TokenId> ids;
    if (options.add_special && vocabulary_.adds_bos()) {
        ids.push_back(vocabulary_.bos());
    }
    std::size_t taken = 0;
    for (const SpecialMatch& match : special_tokens_.find(text, options.parse_special)) {
        if (match.begin < taken) {
            continue;  // overlaps the token before
        }
        if (match.begin > taken) {
            encode_stretch(text.substr(taken, match.begin - taken), ids);
        }
        ids.push_back(match.id);
        taken = match.begin + vocabulary_.piece(match.id).size();
        if (vocabulary_.swallows_space_after(match.id)) {
            while (taken < text.size() && is_ascii_space(text[taken])) {
                ++taken;
            }
        }
    }
    if (taken < text.size()) {
        encode_stretch(text.substr(taken), ids);
    }
    if (options.add_special && vocabulary_.adds_eos()) {
        ids.push_back(vocabulary_.eos());
    }
    return ids;
}

std::string VocabularyTokenizer::token_bytes(TokenId id, bool render_special) const {
    if (!vocabulary_.contains(id)) {
        return "";
    }
    const std::string_view spelled = vocabulary_.piece(id);
    switch (vocabulary_.kind(id)) {
        case TokenKind::kNormal:
            return normal_bytes(spelled);
        case TokenKind::kByte:
            return std::string(1, static_cast<char>(vocabulary_.byte_value(id)));
        case TokenKind::kUserDefined:
            return std::string(spelled);
        case TokenKind::kControl:
        case TokenKind::kUnknown:
            return render_special ? std::string(spelled) : "";
        case TokenKind::kUnused:
            break;
    }
    return "";
}

std::string VocabularyTokenizer::decode(std::span<const TokenId> ids, bool render_special) const {
    std::string text;
    bool strip_space = vocabulary_.adds_space_prefix();
    for (const TokenId id : ids) {
        std::string bytes = token_bytes(id, render_special);
        if (strip_space && !bytes.empty() && bytes.front() == ' ') {
            bytes.erase(0, 1);
        }
        strip_space = false;
        text += bytes;
    }
    return cleans_up_spaces() ? clean_up_spaces(text) : text;
}

std::string_view VocabularyTokenizer::piece(TokenId id) const {
    return vocabulary_.contains(id) ? vocabulary_.piece(id) : std::string_view();
}

TokenKind VocabularyTokenizer::kind(TokenId id) const {
    return vocabulary_.contains(id) ? vocabulary_.kind(id) : TokenKind::kUnused;
}

}  // namespace ballast::tokenizer
