// SPDX-License-Identifier: MIT
// The token list of a GGUF file, checked: pieces, kinds, scores, special ids and flags. Both
// tokenizer families build on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/gguf/metadata.h"
#include "engine/tokenizer/tokenizer.h"

namespace ballast::tokenizer {

/// What holds where the file has no key for it; differs by tokenizer family.
struct VocabularyDefaults {
    TokenId bos = -1;
    TokenId eos = -1;
    TokenId unknown = -1;
    bool adds_bos = false;
    bool adds_eos = false;
    bool adds_space_prefix = false;
    bool needs_scores = false;
};

/// Immutable after load and independent of the mapping it was read from.
class Vocabulary {
  public:
    /// kCorruptFile or kUnsupported, naming the key at fault.
    static Result<Vocabulary> load(const gguf::Metadata& metadata,
                                   const VocabularyDefaults& defaults);

    int size() const { return static_cast<int>(kinds_.size()); }
    bool contains(TokenId id) const { return id >= 0 && id < size(); }

    // For an id that the vocabulary contains.
    std::string_view piece(TokenId id) const;
    TokenKind kind(TokenId id) const { return kinds_[static_cast<std::size_t>(id)]; }
    float score(TokenId id) const { return scores_[static_cast<std::size_t>(id)]; }
    /// The byte a token of kind kByte stands for.
    unsigned char byte_value(TokenId id) const;
    /// Whether white space after this token in a text belongs to the token (Phi-3).
    bool swallows_space_after(TokenId id) const;

    /// −1 if no token is spelled so. Of tokens spelled alike the first counts.
    TokenId find(std::string_view piece) const;
    /// Bytes of the longest piece: nothing longer needs to be looked up.
    std::size_t longest_piece() const { return longest_piece_; }

    TokenId bos() const { return bos_; }
    TokenId eos() const { return eos_; }
    TokenId unknown() const { return unknown_; }
    bool adds_bos() const { return adds_bos_; }
    bool adds_eos() const { return adds_eos_; }
    bool adds_space_prefix() const { return adds_space_prefix_; }
    bool is_end_of_generation(TokenId id) const;

  private:
    Status read_pieces(const gguf::Metadata& metadata);
    Status read_kinds(const gguf::Metadata& metadata);
    Status read_scores(const gguf::Metadata& metadata, bool needed);
    Status read_special_ids(const gguf::Metadata& metadata, const VocabularyDefaults& defaults);
    Status read_flags(const gguf::Metadata& metadata, const VocabularyDefaults& defaults);
    Status check_byte_pieces() const;
    void index_pieces();

    std::string text_;               // all pieces, one after another
    std::vector<std::size_t> ends_;  // where each piece ends in text_
    std::vector<TokenKind> kinds_;
    std::vector<float> scores_;     // zeros where the file has none
    std::vector<TokenId> slots_;    // hash table by piece, open addressing; −1: empty
    std::vector<TokenId> end_ids_;  // sorted
    std::size_t longest_piece_ = 0;
    TokenId bos_ = -1;
    TokenId eos_ = -1;
    TokenId unknown_ = -1;
    bool adds_bos_ = false;
    bool adds_eos_ = false;
    bool adds_space_prefix_ = false;
    bool swallows_space_ = false;
};

/// The value of "<0xHH>", two hexadecimal digits; −1 for any other text.
int parse_byte_piece(std::string_view piece);

}  // namespace ballast::tokenizer
