// SPDX-License-Identifier: MIT
// The trie is laid out breadth first from a sorted list of reversed pieces, then the failure links
// are filled in the same order.
#include "engine/tokenizer/special_tokens.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace ballast::tokenizer {

namespace {

// Real vocabularies have below 200 KB of special tokens. The automaton takes about 32 bytes for
// each byte of them, which a hostile file must not be able to abuse.
constexpr std::size_t kSpecialBytesMax = 8U << 20U;

struct Pattern {
    std::string reversed;
    TokenId id = -1;
};

/// A node to be expanded: the patterns [begin, end) share its first `depth` bytes.
struct Pending {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::uint32_t depth = 0;
};

}  // namespace

Result<SpecialTokens> SpecialTokens::build(const Vocabulary& vocabulary) {
    std::vector<Pattern> patterns;
    std::size_t n_bytes = 0;
    for (TokenId id = 0; id < vocabulary.size(); ++id) {
        const TokenKind kind = vocabulary.kind(id);
        const bool special = kind == TokenKind::kControl || kind == TokenKind::kUnknown ||
                             kind == TokenKind::kUserDefined;
        const std::string_view piece = vocabulary.piece(id);
        if (!special || piece.empty() || vocabulary.find(piece) != id) {
            continue;
        }
        n_bytes += piece.size();
        if (n_bytes > kSpecialBytesMax) {
            return fail(ErrorCode::kUnsupported,
                        fmt::format("tokenizer.ggml.tokens has more than {} bytes of special "
                                    "tokens.",
                                    kSpecialBytesMax));
        }
        patterns.push_back({std::string(piece.rbegin(), piece.rend()), id});
    }
    std::sort(patterns.begin(), patterns.end(), [](const Pattern& a, const Pattern& b) {
        return a.reversed < b.reversed;
    });

    SpecialTokens result;
    std::vector<Pending> pending = {{0, patterns.size(), 0}};
    result.nodes_.emplace_back();
    for (std::size_t at = 0; at < pending.size(); ++at) {
        auto [begin, end, depth] = pending[at];
        Node& node = result.nodes_[at];
        // Sorted: a pattern that ends here comes first.
        if (begin < end && patterns[begin].reversed.size() == depth) {
            node.best_any = patterns[begin].id;
            if (vocabulary.kind(node.best_any) == TokenKind::kUserDefined) {
                node.best_user = node.best_any;
            }
            ++begin;
        }
        const auto first_edge = static_cast<std::uint32_t>(result.edges_.size());
        while (begin < end) {
            const char byte = patterns[begin].reversed[depth];
            std::size_t next = begin + 1;
            while (next < end && patterns[next].reversed[depth] == byte) {
                ++next;
            }
            result.edges_.push_back(
                {static_cast<unsigned char>(byte), static_cast<std::uint32_t>(pending.size())});
            pending.push_back({begin, next, depth + 1});
            begin = next;
        }
        node.first_edge = first_edge;
        node.n_edges = static_cast<std::uint32_t>(result.edges_.size()) - first_edge;
        result.nodes_.resize(pending.size());
    }
    result.link_failures();
    return result;
}

void SpecialTokens::link_failures() {
    for (std::uint32_t parent = 0; parent < nodes_.size(); ++parent) {
        const Node& from = nodes_[parent];
        for (std::uint32_t i = 0; i < from.n_edges; ++i) {
            const Edge edge = edges_[from.first_edge + i];
            Node& child = nodes_[edge.target];
            child.failure = parent == 0 ? 0 : step(from.failure, edge.byte);
            const Node& shorter = nodes_[child.failure];
            child.best_any = child.best_any >= 0 ? child.best_any : shorter.best_any;
            child.best_user = child.best_user >= 0 ? child.best_user : shorter.best_user;
        }
    }
}

std::uint32_t SpecialTokens::follow(std::uint32_t node, unsigned char byte) const {
    const auto first = edges_.begin() + nodes_[node].first_edge;
    const auto last = first + nodes_[node].n_edges;
    const auto found = std::lower_bound(
        first, last, byte, [](const Edge& edge, unsigned char b) { return edge.byte < b; });
    return found != last && found->byte == byte ? found->target : 0;
}

std::uint32_t SpecialTokens::step(std::uint32_t node, unsigned char byte) const {
    // Each failure shortens the node, each byte of text lengthens it by one at most: the loop's
    // turns over a whole text are no more than its bytes.
    while (true) {
        if (const std::uint32_t next = follow(node, byte); next != 0) {
            return next;
        }
        if (node == 0) {
            return 0;
        }
        node = nodes_[node].failure;
    }
}

std::vector<SpecialMatch> SpecialTokens::find(std::string_view text, bool parse_special) const {
    std::vector<SpecialMatch> matches;
    std::uint32_t node = 0;
    for (std::size_t i = text.size(); i-- > 0;) {
        node = step(node, static_cast<unsigned char>(text[i]));
        const TokenId id = parse_special ? nodes_[node].best_any : nodes_[node].best_user;
        if (id >= 0) {
            matches.push_back({i, id});
        }
    }
    std::reverse(matches.begin(), matches.end());
    return matches;
}

}  // namespace ballast::tokenizer
