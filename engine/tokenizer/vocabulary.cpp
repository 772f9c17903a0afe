// SPDX-License-Identifier: MIT
// Reads the tokenizer.ggml.* keys. The file is untrusted: every list's length and every id is
// checked here, once.
#include "engine/tokenizer/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "engine/tokenizer/end_of_generation.h"

namespace ballast::tokenizer {

namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kKindsKey = "tokenizer.ggml.token_type";
constexpr std::string_view kBosKey = "tokenizer.ggml.bos_token_id";
constexpr std::string_view kEosKey = "tokenizer.ggml.eos_token_id";

int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return -1;
}

tl::unexpected<Error> unequal(std::string_view key, std::size_t n, std::size_t n_tokens) {
    return fail(ErrorCode::kCorruptFile,
                fmt::format("{} has {} entries but {} has {}.", key, n, kTokensKey, n_tokens));
}

/// The id under a key, or the fallback if the key is absent.
Result<TokenId> id_or(const gguf::Metadata& metadata,
                      std::string_view key,
                      TokenId fallback,
                      int vocabulary_size) {
    if (metadata.find(key) == nullptr) {
        return fallback < vocabulary_size ? fallback : -1;
    }
    BALLAST_TRY(const std::uint32_t id, metadata.u32(key));
    if (id >= static_cast<std::uint32_t>(vocabulary_size)) {
        return fail(
            ErrorCode::kCorruptFile,
            fmt::format("{} is {} but the vocabulary has {} tokens.", key, id, vocabulary_size));
    }
    return static_cast<TokenId>(id);
}

bool contains_ignoring_case(std::string_view text, std::string_view lower_case_word) {
    const auto equal = [](char a, char b) {
        return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
    };
    return std::search(
               text.begin(), text.end(), lower_case_word.begin(), lower_case_word.end(), equal) !=
           text.end();
}

}  // namespace

int parse_byte_piece(std::string_view piece) {
    if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>') {
        return -1;
    }
    const int high = hex_digit(piece[3]);
    const int low = hex_digit(piece[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

Result<Vocabulary> Vocabulary::load(const gguf::Metadata& metadata,
                                    const VocabularyDefaults& defaults) {
    Vocabulary vocabulary;
    BALLAST_TRY_STATUS(vocabulary.read_pieces(metadata));
    BALLAST_TRY_STATUS(vocabulary.read_kinds(metadata));
    BALLAST_TRY_STATUS(vocabulary.read_scores(metadata, defaults.needs_scores));
    BALLAST_TRY_STATUS(vocabulary.check_byte_pieces());
    vocabulary.index_pieces();
    BALLAST_TRY_STATUS(vocabulary.read_special_ids(metadata, defaults));
    BALLAST_TRY_STATUS(vocabulary.read_flags(metadata, defaults));
    return vocabulary;
}

Status Vocabulary::read_pieces(const gguf::Metadata& metadata) {
    BALLAST_TRY(const auto pieces, metadata.strings(kTokensKey));
    if (pieces.empty()) {
        return fail(ErrorCode::kCorruptFile, fmt::format("{} is empty.", kTokensKey));
    }
    if (pieces.size() > static_cast<std::size_t>(std::numeric_limits<TokenId>::max())) {
        return fail(ErrorCode::kUnsupported,
                    fmt::format("{} has more entries than token ids can count.", kTokensKey));
    }
    ends_.reserve(pieces.size());
    for (const std::string_view piece : pieces) {
        text_.append(piece);
        ends_.push_back(text_.size());
        longest_piece_ = std::max(longest_piece_, piece.size());
    }
    return {};
}

Status Vocabulary::read_kinds(const gguf::Metadata& metadata) {
    kinds_.assign(ends_.size(), TokenKind::kNormal);
    if (metadata.find(kKindsKey) == nullptr) {
        return {};
    }
    BALLAST_TRY(const auto kinds, metadata.integers(kKindsKey));
    if (kinds.size() != kinds_.size()) {
        return unequal(kKindsKey, kinds.size(), kinds_.size());
    }
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        // Numbers that the format does not define are tokens nobody can use.
        const bool known = kinds[i] >= static_cast<int>(TokenKind::kNormal) &&
                           kinds[i] <= static_cast<int>(TokenKind::kByte);
        kinds_[i] = known ? static_cast<TokenKind>(kinds[i]) : TokenKind::kUnused;
    }
    return {};
}

Status Vocabulary::read_scores(const gguf::Metadata& metadata, bool needed) {
    scores_.assign(ends_.size(), 0.0F);
    if (metadata.find(kScoresKey) == nullptr && !needed) {
        return {};
    }
    BALLAST_TRY(const auto scores, metadata.floats(kScoresKey));
    if (scores.size() != scores_.size()) {
        return unequal(kScoresKey, scores.size(), scores_.size());
    }
    for (std::size_t i = 0; i < scores.size(); ++i) {
        // Merging orders pairs by score; a NaN has no place in an order.
        if (std::isnan(scores[i])) {
            return fail(ErrorCode::kCorruptFile,
                        fmt::format("{}[{}] is not a number.", kScoresKey, i));
        }
        scores_[i] = scores[i];
    }
    return {};
}

Status Vocabulary::check_byte_pieces() const {
    for (TokenId id = 0; id < size(); ++id) {
        if (kind(id) == TokenKind::kByte && parse_byte_piece(piece(id)) < 0) {
            return fail(
                ErrorCode::kCorruptFile,
                fmt::format(
                    "{}[{}] is a byte token but is not spelled <0x00> to <0xFF>.", kTokensKey, id));
        }
    }
    return {};
}

void Vocabulary::index_pieces() {
    // At most half full, so that a search meets an empty slot soon.
    std::size_t n_slots = 16;
    while (n_slots < 2 * ends_.size()) {
        n_slots *= 2;
    }
    slots_.assign(n_slots, -1);
    for (TokenId id = 0; id < size(); ++id) {
        const std::string_view spelled = piece(id);
        if (spelled.empty()) {
            continue;
        }
        std::size_t slot = std::hash<std::string_view>{}(spelled) & (n_slots - 1);
        while (slots_[slot] >= 0 && piece(slots_[slot]) != spelled) {
            slot = (slot + 1) & (n_slots - 1);
        }
        if (slots_[slot] < 0) {
            slots_[slot] = id;
        }
    }
}

Status Vocabulary::read_special_ids(const gguf::Metadata& metadata,
                                    const VocabularyDefaults& defaults) {
    const auto read = [&](std::string_view key, TokenId fallback) {
        return id_or(metadata, key, fallback, size());
    };
    // The first key that is there counts; the second is an older name of the same.
    const auto read_fim = [&](std::string_view key, std::string_view older) -> Result<TokenId> {
        return read(metadata.find(key) != nullptr ? key : older, -1);
    };
    BALLAST_TRY(bos_, read(kBosKey, defaults.bos));
    BALLAST_TRY(eos_, read(kEosKey, defaults.eos));
    BALLAST_TRY(unknown_, read("tokenizer.ggml.unknown_token_id", defaults.unknown));
    NamedIds named;
    named.eos = eos_;
    BALLAST_TRY(named.eot, read("tokenizer.ggml.eot_token_id", -1));
    BALLAST_TRY(named.eom, read("tokenizer.ggml.eom_token_id", -1));
    BALLAST_TRY(named.fim_prefix,
                read_fim("tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"));
    BALLAST_TRY(named.fim_suffix,
                read_fim("tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"));
    BALLAST_TRY(named.fim_middle,
                read_fim("tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"));
    BALLAST_TRY(named.fim_padding, read("tokenizer.ggml.fim_pad_token_id", -1));
    BALLAST_TRY(named.fim_repository, read("tokenizer.ggml.fim_rep_token_id", -1));
    BALLAST_TRY(named.fim_separator, read("tokenizer.ggml.fim_sep_token_id", -1));
    end_ids_ = find_end_of_generation(
        named, [this](std::string_view spelled) { return find(spelled); }, kinds_);
    return {};
}

Status Vocabulary::read_flags(const gguf::Metadata& metadata, const VocabularyDefaults& defaults) {
    BALLAST_TRY(adds_bos_, metadata.boolean_or("tokenizer.ggml.add_bos_token", defaults.adds_bos));
    BALLAST_TRY(adds_eos_, metadata.boolean_or("tokenizer.ggml.add_eos_token", defaults.adds_eos));
    BALLAST_TRY(adds_space_prefix_,
                metadata.boolean_or("tokenizer.ggml.add_space_prefix", defaults.adds_space_prefix));
    if (adds_bos_ && bos_ < 0) {
        return fail(
            ErrorCode::kCorruptFile,
            fmt::format("The vocabulary adds a beginning token, but {} is missing.", kBosKey));
    }
    if (adds_eos_ && eos_ < 0) {
        return fail(ErrorCode::kCorruptFile,
                    fmt::format("The vocabulary adds an end token, but {} is missing.", kEosKey));
    }
    // GGUF has no key for this property of a token; the model's name is all there is to go by.
    BALLAST_TRY(const auto name, metadata.string_or("general.name", ""));
    swallows_space_ = contains_ignoring_case(name, "phi-3") || contains_ignoring_case(name, "phi3");
    return {};
}

std::string_view Vocabulary::piece(TokenId id) const {
    const auto at = static_cast<std::size_t>(id);
    const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
    return std::string_view(text_).substr(begin, ends_[at] - begin);
}

unsigned char Vocabulary::byte_value(TokenId id) const {
    return static_cast<unsigned char>(parse_byte_piece(piece(id)));
}

bool Vocabulary::swallows_space_after(TokenId id) const {
    if (!swallows_space_) {
        return false;
    }
    const std::string_view spelled = piece(id);
    return spelled != "<unk>" && spelled != "<s>" && spelled != "<|endoftext|>";
}

TokenId Vocabulary::find(std::string_view piece_text) const {
    if (piece_text.empty() || piece_text.size() > longest_piece_) {
        return -1;
    }
    std::size_t slot = std::hash<std::string_view>{}(piece_text) & (slots_.size() - 1);
    while (slots_[slot] >= 0 && piece(slots_[slot]) != piece_text) {
        slot = (slot + 1) & (slots_.size() - 1);
    }
    return slots_[slot];
}

bool Vocabulary::is_end_of_generation(TokenId id) const {
    return std::binary_search(end_ids_.begin(), end_ids_.end(), id);
}

}  // namespace ballast::tokenizer
