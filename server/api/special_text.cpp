// SPDX-License-Identifier: MIT
// Narrows a range of the sorted list byte by byte.
#include "server/api/special_text.h"

#include <algorithm>

namespace ballast::api {

SpecialText::SpecialText(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
    std::erase_if(pieces_, [](const std::string& piece) { return piece.empty(); });
    std::sort(pieces_.begin(), pieces_.end());
    for (const std::string& piece : pieces_) {
        begins_[static_cast<unsigned char>(piece.front())] = true;
    }
}

std::size_t SpecialText::match(std::string_view text, std::size_t position) const {
    if (position >= text.size() || !begins_[static_cast<unsigned char>(text[position])]) {
        return 0;
    }
    auto low = pieces_.begin();
    auto high = pieces_.end();
    std::size_t longest = 0;
    // All pieces of [low, high) begin with the first `depth` bytes of the text at `position`.
    for (std::size_t depth = 0; low != high && position + depth < text.size(); ++depth) {
        const auto wanted = static_cast<unsigned char>(text[position + depth]);
        const auto byte = [depth](const std::string& piece) {
            return depth < piece.size() ? int{static_cast<unsigned char>(piece[depth])} : -1;
        };
        low = std::partition_point(low, high, [&](const auto& p) { return byte(p) < wanted; });
        high = std::partition_point(low, high, [&](const auto& p) { return byte(p) == wanted; });
        if (low != high && low->size() == depth + 1) {
            longest = depth + 1;  // the shortest of a range comes first
        }
    }
    return longest;
}

bool SpecialText::occurs_in(std::string_view text) const {
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (match(text, i) > 0) {
            return true;
        }
    }
    return false;
}

}  // namespace ballast::api
