// SPDX-License-Identifier: MIT
// Text to token ids and back, by the vocabulary inside a GGUF file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/ids.h"
#include "engine/base/result.h"
#include "engine/gguf/metadata.h"

namespace ballast::tokenizer {

/// Token kinds of `tokenizer.ggml.token_type` in GGUF.
enum class TokenKind {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
};

struct EncodeOptions {
    bool add_special = true;     // BOS and EOS as the vocabulary says
    bool parse_special = false;  // special tokens written in the text become their ids
};

/// Immutable after load; every method may be called from any thread at the same time.
class Tokenizer {
  public:
    virtual ~Tokenizer() = default;

    /// Builds the tokenizer that `tokenizer.ggml.model` names ("gpt2": byte-level BPE, "llama":
    /// SentencePiece). Errors: kCorruptFile or kUnsupported, naming the key. Copies what it needs:
    /// does not depend on the mapping afterwards.
    static Result<std::unique_ptr<Tokenizer>> load(const gguf::Metadata& metadata);

    /// Never fails; invalid UTF-8 is encoded byte by byte. Time is linear in the text, up to a
    /// logarithm.
    virtual std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const = 0;

    /// The bytes one token stands for inside a text (a leading-space piece keeps its space).
    /// Control tokens give "" unless render_special.
    virtual std::string token_bytes(TokenId id, bool render_special) const = 0;

    /// The text of a whole sequence: like llama_detokenize, strips the space that encoding put
    /// before the first word where the vocabulary adds one.
    virtual std::string decode(std::span<const TokenId> ids, bool render_special) const = 0;

    virtual int vocabulary_size() const = 0;
    /// The piece as the vocabulary spells it, for listings.
    virtual std::string_view piece(TokenId id) const = 0;
    virtual TokenKind kind(TokenId id) const = 0;
    /// −1 where the vocabulary has none.
    virtual TokenId bos() const = 0;
    virtual TokenId eos() const = 0;
    /// Whether generation ends at this id (EOS, EOT, EOM and the known end-of-turn pieces).
    virtual bool is_end_of_generation(TokenId id) const = 0;
    virtual bool adds_bos() const = 0;
    /// Whether encoding puts a space before the first word, which decode() strips.
    virtual bool adds_space_prefix() const { return false; }
};

}  // namespace ballast::tokenizer
