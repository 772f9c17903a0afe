// SPDX-License-Identifier: MIT
// Which tokens end a generation. Files name only some of them by key; the rest are known by how
// they are spelled. Many files give such a token the wrong kind, which is put right here too.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/ids.h"
#include "engine/tokenizer/tokenizer.h"

namespace ballast::tokenizer {

/// Ids the file names by key; −1: it does not.
struct NamedIds {
    TokenId eos = -1;
    TokenId eot = -1;
    TokenId eom = -1;
    TokenId fim_prefix = -1;
    TokenId fim_suffix = -1;
    TokenId fim_middle = -1;
    TokenId fim_padding = -1;
    TokenId fim_repository = -1;
    TokenId fim_separator = -1;
};

/// Returns the ids, sorted, and corrects `kinds`. `find` gives a piece's id or −1.
std::vector<TokenId> find_end_of_generation(const NamedIds& named,
                                            const std::function<TokenId(std::string_view)>& find,
                                            std::span<TokenKind> kinds);

}  // namespace ballast::tokenizer
