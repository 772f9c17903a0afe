// SPDX-License-Identifier: MIT
// Knuth-Morris-Pratt for long needles, in either direction.
#include "engine/chat/template_search.h"

namespace ballast::chat {

TextSearch::TextSearch(std::string_view needle, Direction direction)
    : needle_(needle), direction_(direction) {
    if (needle.size() <= kShortMax) {
        return;
    }
    border_.resize(needle.size());
    std::uint32_t length = 0;
    for (std::size_t i = 1; i < needle.size(); ++i) {
        while (length > 0 && needle_at(i) != needle_at(length)) {
            length = border_[length - 1];
        }
        length += needle_at(i) == needle_at(length) ? 1 : 0;
        border_[i] = length;
    }
}

std::size_t TextSearch::find(std::string_view text, std::size_t from) const {
    const bool forward = direction_ == Direction::kForward;
    if (from > text.size()) {
        return std::string_view::npos;
    }
    if (border_.empty()) {
        return forward ? text.find(needle_, from)
                       : text.substr(0, text.size() - from).rfind(needle_);
    }
    std::size_t matched = 0;
    for (std::size_t i = from; i < text.size(); ++i) {
        const char c = forward ? text[i] : text[text.size() - 1 - i];
        while (matched > 0 && c != needle_at(matched)) {
            matched = border_[matched - 1];
        }
        matched += c == needle_at(matched) ? 1 : 0;
        if (matched == needle_.size()) {
            return forward ? i + 1 - needle_.size() : text.size() - 1 - i;
        }
    }
    return std::string_view::npos;
}

}  // namespace ballast::chat
