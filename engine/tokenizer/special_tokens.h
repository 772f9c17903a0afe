// SPDX-License-Identifier: MIT
// Finds the special tokens that are written out in a text, in time linear in the text whatever
// the tokens are.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/tokenizer/vocabulary.h"

namespace ballast::tokenizer {

/// The longest special token that begins at this place of a text.
struct SpecialMatch {
    std::size_t begin = 0;
    TokenId id = -1;
};

/// An Aho-Corasick automaton over the *reversed* pieces, run from the end of the text to its
/// beginning: the longest piece ending a reversed text is the longest one beginning at that place.
/// Immutable.
class SpecialTokens {
  public:
    /// kUnsupported if the special tokens are absurdly long.
    static Result<SpecialTokens> build(const Vocabulary& vocabulary);

    /// Matches in rising order of begin; they may overlap. User-defined tokens are always looked
    /// for, control and unknown tokens only if parse_special.
    std::vector<SpecialMatch> find(std::string_view text, bool parse_special) const;

  private:
    struct Edge {
        unsigned char byte = 0;
        std::uint32_t target = 0;
    };
    struct Node {
        std::uint32_t first_edge = 0;  // into edges_, sorted by byte
        std::uint32_t n_edges = 0;
        std::uint32_t failure = 0;  // longest proper suffix that is a node
        TokenId best_any = -1;      // longest token that is a suffix of this node
        TokenId best_user = -1;     // the same, of user-defined tokens only
    };

    /// Target of the edge, or 0, the root.
    std::uint32_t follow(std::uint32_t node, unsigned char byte) const;
    std::uint32_t step(std::uint32_t node, unsigned char byte) const;
    void link_failures();

    std::vector<Node> nodes_;  // breadth first: a node's failure comes before it
    std::vector<Edge> edges_;
};

}  // namespace ballast::tokenizer
