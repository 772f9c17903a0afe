// SPDX-License-Identifier: MIT
// The spellings are those in use by published models.
#include "engine/tokenizer/end_of_generation.h"

#include <algorithm>
#include <array>
#include <set>

namespace ballast::tokenizer {

namespace {

constexpr std::array<std::string_view, 22> kEndPieces = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
};

// Fill-in-the-middle markers are control tokens; the last three also end a generation, because a
// model that writes one has begun another file.
using Spellings = std::array<std::string_view, 8>;
constexpr Spellings kFimPrefix = {"<|fim_prefix|>",
                                  "<fim-prefix>",
                                  "<fim_prefix>",
                                  "<｜fim▁begin｜>",
                                  "<PRE>",
                                  "▁<PRE>",
                                  "<|code_prefix|>",
                                  "<|prefix|>"};
constexpr Spellings kFimSuffix = {"<|fim_suffix|>",
                                  "<fim-suffix>",
                                  "<fim_suffix>",
                                  "<｜fim▁hole｜>",
                                  "<SUF>",
                                  "▁<SUF>",
                                  "<|code_suffix|>",
                                  "<|suffix|>"};
constexpr Spellings kFimMiddle = {"<|fim_middle|>",
                                  "<fim-middle>",
                                  "<fim_middle>",
                                  "<｜fim▁end｜>",
                                  "<MID>",
                                  "▁<MID>",
                                  "<|code_middle|>",
                                  "<|middle|>"};
constexpr Spellings kFimPadding = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};
constexpr Spellings kFimRepository = {
    "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"};
constexpr Spellings kFimSeparator = {"<|file_sep|>"};

class Search {
  public:
    Search(const std::function<TokenId(std::string_view)>& find, std::span<TokenKind> kinds)
        : find_(find), kinds_(kinds) {}

    TokenId find(std::string_view piece) const { return piece.empty() ? -1 : find_(piece); }

    /// The named id, or else the first spelling there is, whose kind becomes control.
    TokenId resolve(TokenId named, const Spellings& spellings) {
        if (named >= 0) {
            return named;
        }
        for (const std::string_view spelling : spellings) {
            if (const TokenId id = find(spelling); id >= 0) {
                set_kind(id, TokenKind::kControl);
                return id;
            }
        }
        return -1;
    }

    void set_kind(TokenId id, TokenKind kind) { kinds_[static_cast<std::size_t>(id)] = kind; }

  private:
    const std::function<TokenId(std::string_view)>& find_;
    std::span<TokenKind> kinds_;
};

// Vocabularies whose meaning of a spelling differs from everyone else's.
void apply_exceptions(Search& search, std::set<TokenId>& ends) {
    const auto ends_at = [&](std::string_view piece) { return ends.count(search.find(piece)) > 0; };
    // Harmony's and Solar's <|end|> ends a message, and another message follows.
    if (ends_at("<|end|>") &&
        ((ends_at("<|return|>") && ends_at("<|call|>")) ||
         (ends_at("<|flush|>") && (ends_at("<|call|>") || ends_at("<|calls|>"))))) {
        const TokenId id = search.find("<|end|>");
        ends.erase(id);
        search.set_kind(id, TokenKind::kUserDefined);
    }
    // Gemma 4 ends at <turn|>; its </s> is an HTML tag.
    if (ends_at("<|tool_response>") && ends_at("</s>")) {
        const TokenId id = search.find("</s>");
        ends.erase(id);
        search.set_kind(id, TokenKind::kNormal);
    }
}

}  // namespace

std::vector<TokenId> find_end_of_generation(const NamedIds& named,
                                            const std::function<TokenId(std::string_view)>& find,
                                            std::span<TokenKind> kinds) {
    Search search(find, kinds);
    std::set<TokenId> ends;
    search.resolve(named.fim_prefix, kFimPrefix);
    search.resolve(named.fim_suffix, kFimSuffix);
    search.resolve(named.fim_middle, kFimMiddle);
    ends.insert({named.eos,
                 named.eot,
                 named.eom,
                 search.resolve(named.fim_padding, kFimPadding),
                 search.resolve(named.fim_repository, kFimRepository),
                 search.resolve(named.fim_separator, kFimSeparator)});
    for (const std::string_view piece : kEndPieces) {
        if (const TokenId id = search.find(piece); id >= 0) {
            ends.insert(id);
            search.set_kind(id, TokenKind::kControl);
        }
    }
    // Harmony's message structure must be visible to whoever parses the reply.
    for (const std::string_view piece :
         {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"}) {
        if (const TokenId id = search.find(piece); id >= 0) {
            search.set_kind(id, TokenKind::kUserDefined);
        }
    }
    ends.erase(-1);
    apply_exceptions(search, ends);
    return {ends.begin(), ends.end()};
}

}  // namespace ballast::tokenizer
