// SPDX-License-Identifier: MIT
// Which cuts, and which other habits, belong to each name of `tokenizer.ggml.pre`.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace ballast::tokenizer {

struct PretokenizerRule {
    std::span<const std::string_view> patterns;
    /// A word that is a token as a whole is that token, whatever the merges say.
    bool whole_words_first = false;
    /// Whether a text begins with BOS where the file does not say.
    bool adds_bos = false;
    /// Whether decoding takes out the spaces before punctuation that this family's decoder does.
    bool cleans_up_spaces = true;
};

/// kUnsupported, naming the key and the value, for a name we do not know. "" means "default".
Result<PretokenizerRule> find_pretokenizer_rule(std::string_view name);

/// Every name find_pretokenizer_rule() knows, for tests and listings.
std::vector<std::string_view> pretokenizer_names();

}  // namespace ballast::tokenizer
