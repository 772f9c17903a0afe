// SPDX-License-Identifier: MIT
// Code points, white space, case and splitting, with the results Python's str methods give.
#include "engine/chat/template_text.h"

#include <algorithm>

namespace ballast::chat {

namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
    return static_cast<unsigned char>(text[at]);
}

/// Length announced by a lead byte; 0 for a byte that cannot start a code point.
std::size_t announced_bytes(unsigned lead) {
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xC2 && lead <= 0xDF) {
        return 2;
    }
    if (lead >= 0xE0 && lead <= 0xEF) {
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        return 4;
    }
    return 0;
}

bool is_ascii(std::string_view text) {
    return std::all_of(
        text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Pairs of neighbouring code points, upper then lower: the upper one is even (or odd) there.
bool in_even_pair_block(char32_t c) {
    return (c >= 0x100 && c <= 0x137 && c != 0x130 && c != 0x131) || (c >= 0x14A && c <= 0x177) ||
           (c >= 0x1DE && c <= 0x1EF) || (c >= 0x1F8 && c <= 0x21F) || (c >= 0x222 && c <= 0x233) ||
           (c >= 0x3D8 && c <= 0x3EF) || (c >= 0x460 && c <= 0x481) || (c >= 0x48A && c <= 0x4BF) ||
           (c >= 0x4D0 && c <= 0x52F) || (c >= 0x1E00 && c <= 0x1E95) ||
           (c >= 0x1EA0 && c <= 0x1EFF);
}

bool in_odd_pair_block(char32_t c) {
    return (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E) || (c >= 0x1CD && c <= 0x1DC) ||
           (c >= 0x4C1 && c <= 0x4CE);
}

std::string map_text(std::string_view text, char32_t (*map)(char32_t)) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t n = code_point_bytes(text, at);
        const char32_t from = code_point_at(text, at);
        const char32_t to = map(from);
        if (to == from) {
            out.append(text, at, n);
        } else {
            append_code_point(out, to);
        }
        at += n;
    }
    return out;
}

void append_upper(std::string& out, std::string_view piece, char32_t c) {
    if (c == 0xDF) {
        out += "SS";
    } else if (const char32_t upper = to_upper(c); upper != c) {
        append_code_point(out, upper);
    } else {
        out += piece;
    }
}

std::size_t previous_start(std::string_view text, std::size_t end) {
    std::size_t at = end - 1;
    while (at > 0 && end - at < 4 && (byte_at(text, at) & 0xC0) == 0x80) {
        --at;
    }
    return at + code_point_bytes(text, at) == end ? at : end - 1;
}

template <class Predicate>
std::string_view strip_if(std::string_view text, Side side, Predicate drop) {
    while (side != Side::kRight && !text.empty() && drop(code_point_at(text, 0))) {
        text.remove_prefix(code_point_bytes(text, 0));
    }
    while (side != Side::kLeft && !text.empty()) {
        const std::size_t start = previous_start(text, text.size());
        if (!drop(code_point_at(text, start))) {
            break;
        }
        text = text.substr(0, start);
    }
    return text;
}

std::vector<std::string_view> split_space(std::string_view text,
                                          std::int64_t splits_max,
                                          bool from_right) {
    std::vector<std::string_view> pieces;
    const Side near = from_right ? Side::kRight : Side::kLeft;
    const Side far = from_right ? Side::kLeft : Side::kRight;
    text = strip_space(text, near);
    while (!text.empty()) {
        if (splits_max >= 0 && static_cast<std::int64_t>(pieces.size()) == splits_max) {
            pieces.push_back(strip_space(text, far));
            break;
        }
        std::size_t at = from_right ? text.size() : 0;
        while (from_right ? at > 0 : at < text.size()) {
            const std::size_t start = from_right ? previous_start(text, at) : at;
            if (is_space(code_point_at(text, start))) {
                break;
            }
            at = from_right ? start : at + code_point_bytes(text, at);
        }
        pieces.push_back(from_right ? text.substr(at) : text.substr(0, at));
        text = strip_space(from_right ? text.substr(0, at) : text.substr(at), near);
    }
    if (from_right) {
        std::reverse(pieces.begin(), pieces.end());
    }
    return pieces;
}

}  // namespace

std::size_t code_point_bytes(std::string_view text, std::size_t at) {
    const unsigned lead = byte_at(text, at);
    const std::size_t n = announced_bytes(lead);
    if (n <= 1 || at + n > text.size()) {
        return 1;
    }
    for (std::size_t i = 1; i < n; ++i) {
        if ((byte_at(text, at + i) & 0xC0) != 0x80) {
            return 1;
        }
    }
    const unsigned second = byte_at(text, at + 1);
    const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool surrogate = lead == 0xED && second > 0x9F;
    const bool too_large = lead == 0xF4 && second > 0x8F;
    return overlong || surrogate || too_large ? 1 : n;
}

char32_t code_point_at(std::string_view text, std::size_t at) {
    const std::size_t n = code_point_bytes(text, at);
    const unsigned lead = byte_at(text, at);
    if (n == 1) {
        return lead;
    }
    char32_t value = lead & (0x7FU >> n);
    for (std::size_t i = 1; i < n; ++i) {
        value = (value << 6) | (byte_at(text, at + i) & 0x3F);
    }
    return value;
}

std::size_t count_code_points(std::string_view text) {
    if (is_ascii(text)) {
        return text.size();
    }
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) {
        ++count;
    }
    return count;
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
    std::size_t at = 0;
    for (; index > 0 && at < text.size(); --index) {
        at += code_point_bytes(text, at);
    }
    return at;
}

bool is_valid_utf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t n = code_point_bytes(text, at);
        if (n == 1 && byte_at(text, at) >= 0x80) {
            return false;
        }
        at += n;
    }
    return true;
}

std::string with_plain_newlines(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\r') {
            out += text[i];
            continue;
        }
        out += '\n';
        if (i + 1 < text.size() && text[i + 1] == '\n') {
            ++i;
        }
    }
    return out;
}

void append_code_point(std::string& out, char32_t c) {
    const auto put = [&out](char32_t byte) { out += static_cast<char>(byte); };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xC0 | (c >> 6));
        put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        put(0xE0 | (c >> 12));
        put(0x80 | ((c >> 6) & 0x3F));
        put(0x80 | (c & 0x3F));
    } else {
        put(0xF0 | (c >> 18));
        put(0x80 | ((c >> 12) & 0x3F));
        put(0x80 | ((c >> 6) & 0x3F));
        put(0x80 | (c & 0x3F));
    }
}

bool is_space(char32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_letter(char32_t c) {
    if (c < 0x80) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    }
    return c == 0xAA || c == 0xB5 || c == 0xBA ||
           (c >= 0xC0 && c != 0xD7 && c != 0xF7 && c < 0x2B0) ||
           (c >= 0x370 && c < 0x2000 && c != 0x37E && c != 0x387) || (c >= 0x2C00 && c < 0x2E00) ||
           (c >= 0x3041 && c < 0xD800) || (c >= 0xF900 && c < 0xFE00) ||
           (c >= 0x10000 && c < 0x1F000) || (c >= 0x20000 && c < 0x32000);
}

bool is_upper(char32_t c) {
    return to_lower(c) != c;
}

bool is_lower(char32_t c) {
    return to_upper(c) != c || c == 0xDF;
}

char32_t to_lower(char32_t c) {
    if (c < 0x80) {
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    }
    if ((c >= 0xC0 && c <= 0xDE && c != 0xD7) || (c >= 0x391 && c <= 0x3AB && c != 0x3A2) ||
        (c >= 0x410 && c <= 0x42F)) {
        return c + 32;
    }
    if (c >= 0x400 && c <= 0x40F) {
        return c + 80;
    }
    if (c >= 0x531 && c <= 0x556) {
        return c + 48;
    }
    if (c >= 0x388 && c <= 0x38A) {
        return c + 37;
    }
    if (in_even_pair_block(c)) {
        return c | 1;
    }
    if (in_odd_pair_block(c)) {
        return c % 2 == 1 ? c + 1 : c;
    }
    switch (c) {
        case 0x178:
            return 0xFF;
        case 0x386:
            return 0x3AC;
        case 0x38C:
            return 0x3CC;
        case 0x38E:
        case 0x38F:
            return c + 63;
        case 0x4C0:
            return 0x4CF;
        case 0x1E9E:
            return 0xDF;
        default:
            return c;
    }
}

char32_t to_upper(char32_t c) {
    if (c < 0x80) {
        return c >= 'a' && c <= 'z' ? c - 32 : c;
    }
    if ((c >= 0xE0 && c <= 0xFE && c != 0xF7) || (c >= 0x3B1 && c <= 0x3CB && c != 0x3C2) ||
        (c >= 0x430 && c <= 0x44F)) {
        return c - 32;
    }
    if (c >= 0x450 && c <= 0x45F) {
        return c - 80;
    }
    if (c >= 0x561 && c <= 0x586) {
        return c - 48;
    }
    if (c >= 0x3AD && c <= 0x3AF) {
        return c - 37;
    }
    if (in_even_pair_block(c)) {
        return c & ~char32_t{1};
    }
    if (in_odd_pair_block(c)) {
        return c % 2 == 0 ? c - 1 : c;
    }
    switch (c) {
        case 0xB5:
            return 0x39C;
        case 0xFF:
            return 0x178;
        case 0x131:
            return 'I';
        case 0x17F:
            return 'S';
        case 0x3AC:
            return 0x386;
        case 0x3C2:
            return 0x3A3;
        case 0x3CC:
            return 0x38C;
        case 0x3CD:
        case 0x3CE:
            return c - 63;
        case 0x4CF:
            return 0x4C0;
        default:
            return c;
    }
}

std::string lower_text(std::string_view text) {
    return map_text(text, to_lower);
}

std::string upper_text(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t n = code_point_bytes(text, at);
        append_upper(out, text.substr(at, n), code_point_at(text, at));
        at += n;
    }
    return out;
}

std::string capitalize_text(std::string_view text) {
    if (text.empty()) {
        return {};
    }
    const std::size_t n = code_point_bytes(text, 0);
    std::string out;
    // Python writes the title-case form here, which for ß is "Ss".
    if (code_point_at(text, 0) == 0xDF) {
        out = "Ss";
    } else {
        append_upper(out, text.substr(0, n), code_point_at(text, 0));
    }
    return out + lower_text(text.substr(n));
}

std::string title_text(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    bool in_word = false;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t n = code_point_bytes(text, at);
        const char32_t c = code_point_at(text, at);
        if (!in_word && c == 0xDF) {
            out += "Ss";
        } else if (!in_word) {
            append_upper(out, text.substr(at, n), c);
        } else {
            out += map_text(text.substr(at, n), to_lower);
        }
        in_word = is_upper(c) || is_lower(c);
        at += n;
    }
    return out;
}

std::string_view strip_space(std::string_view text, Side side) {
    return strip_if(text, side, is_space);
}

std::string_view strip_characters(std::string_view text, std::string_view characters, Side side) {
    std::vector<char32_t> set;
    for (std::size_t at = 0; at < characters.size(); at += code_point_bytes(characters, at)) {
        set.push_back(code_point_at(characters, at));
    }
    std::sort(set.begin(), set.end());
    return strip_if(
        text, side, [&set](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

std::vector<std::string_view> split_text(std::string_view text,
                                         std::string_view separator,
                                         std::int64_t splits_max,
                                         bool from_right) {
    if (separator.empty()) {
        return split_space(text, splits_max, from_right);
    }
    std::vector<std::string_view> pieces;
    while (splits_max < 0 || static_cast<std::int64_t>(pieces.size()) < splits_max) {
        const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
        if (at == std::string_view::npos) {
            break;
        }
        const std::size_t after = at + separator.size();
        pieces.push_back(from_right ? text.substr(after) : text.substr(0, at));
        text = from_right ? text.substr(0, at) : text.substr(after);
    }
    pieces.push_back(text);
    if (from_right) {
        std::reverse(pieces.begin(), pieces.end());
    }
    return pieces;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
    std::vector<std::string_view> lines;
    std::size_t start = 0;
    for (std::size_t at = 0; at < text.size();) {
        const char32_t c = code_point_at(text, at);
        std::size_t n = code_point_bytes(text, at);
        const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                          c == 0x2028 || c == 0x2029;
        if (!ends) {
            at += n;
            continue;
        }
        if (c == '\r' && at + 1 < text.size() && text[at + 1] == '\n') {
            n = 2;
        }
        lines.push_back(text.substr(start, at - start + (keep_ends ? n : 0)));
        at += n;
        start = at;
    }
    if (start < text.size()) {
        lines.push_back(text.substr(start));
    }
    return lines;
}

}  // namespace ballast::chat
