// SPDX-License-Identifier: MIT
// The byte ranges are table 3-7 of the Unicode Standard: only the second byte of a character has a
// narrower range than 80..BF, and that depends on the first byte.
#include "engine/base/utf8.h"

#include <algorithm>

namespace ballast {

namespace {

struct LeadByte {
    int length = 0;  // of the whole character; 0: not a lead byte
    unsigned char second_low = 0x80;
    unsigned char second_high = 0xBF;
};

LeadByte classify(unsigned char byte) {
    if (byte < 0x80) {
        return {.length = 1};
    }
    if (byte >= 0xC2 && byte <= 0xDF) {
        return {.length = 2};
    }
    if (byte >= 0xE0 && byte <= 0xEF) {
        // E0: below A0 would be overlong. ED: above 9F would be a surrogate.
        return {.length = 3,
                .second_low = static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
                .second_high = static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
    }
    if (byte >= 0xF0 && byte <= 0xF4) {
        // F0: below 90 would be overlong. F4: above 8F would pass U+10FFFF.
        return {.length = 4,
                .second_low = static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
                .second_high = static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
    }
    return {};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
    const auto first = static_cast<unsigned char>(text.front());
    const LeadByte lead = classify(first);
    if (lead.length == 0) {
        return {Utf8Step::Kind::kInvalid, 1, 0};
    }
    if (lead.length == 1) {
        return {Utf8Step::Kind::kValid, 1, first};
    }
    // A lead byte of an n-byte character carries 7 - n bits.
    char32_t code_point = first & ((1U << (7 - lead.length)) - 1U);
    for (int i = 1; i < lead.length; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (at >= text.size()) {
            return {Utf8Step::Kind::kIncomplete, at, 0};
        }
        const auto byte = static_cast<unsigned char>(text[at]);
        const unsigned char low = i == 1 ? lead.second_low : 0x80;
        const unsigned char high = i == 1 ? lead.second_high : 0xBF;
        if (byte < low || byte > high) {
            return {Utf8Step::Kind::kInvalid, at, 0};
        }
        code_point = (code_point << 6) | (byte & 0x3FU);
    }
    return {Utf8Step::Kind::kValid, static_cast<std::size_t>(lead.length), code_point};
}

std::size_t utf8_valid_prefix(std::string_view text) {
    std::size_t position = 0;
    while (position < text.size()) {
        const Utf8Step step = utf8_step(text.substr(position));
        if (step.kind != Utf8Step::Kind::kValid) {
            break;
        }
        position += step.length;
    }
    return position;
}

bool utf8_is_valid(std::string_view text) {
    return utf8_valid_prefix(text) == text.size();
}

std::size_t utf8_incomplete_tail(std::string_view text) {
    // An unfinished character has at most 3 bytes, and only its first is a lead byte.
    for (std::size_t length = 1; length <= std::min<std::size_t>(3, text.size()); ++length) {
        const std::string_view tail = text.substr(text.size() - length);
        const auto first = static_cast<unsigned char>(tail.front());
        if ((first & 0xC0U) == 0x80U) {
            continue;
        }
        const Utf8Step step = utf8_step(tail);
        return step.kind == Utf8Step::Kind::kIncomplete ? length : 0;
    }
    return 0;
}

std::string utf8_replace_invalid(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const Utf8Step step = utf8_step(text);
        if (step.kind == Utf8Step::Kind::kValid) {
            result.append(text.substr(0, step.length));
        } else {
            utf8_append(result, 0xFFFD);
        }
        text.remove_prefix(step.length);
    }
    return result;
}

void utf8_append(std::string& text, char32_t code_point) {
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
        code_point = 0xFFFD;
    }
    const auto byte = [&](char32_t bits) { text.push_back(static_cast<char>(bits)); };
    if (code_point < 0x80) {
        byte(code_point);
    } else if (code_point < 0x800) {
        byte(0xC0 | (code_point >> 6));
        byte(0x80 | (code_point & 0x3F));
    } else if (code_point < 0x10000) {
        byte(0xE0 | (code_point >> 12));
        byte(0x80 | ((code_point >> 6) & 0x3F));
        byte(0x80 | (code_point & 0x3F));
    } else {
        byte(0xF0 | (code_point >> 18));
        byte(0x80 | ((code_point >> 12) & 0x3F));
        byte(0x80 | ((code_point >> 6) & 0x3F));
        byte(0x80 | (code_point & 0x3F));
    }
}

}  // namespace ballast
