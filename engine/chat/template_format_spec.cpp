// SPDX-License-Identifier: MIT
// Padding, signs, thousands and number bases.
#include "engine/chat/template_format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/chat/template_operators.h"
#include "engine/chat/template_print.h"
#include "engine/chat/template_text.h"

namespace ballast::chat {

namespace {

void add_thousands(std::string& number) {
    const std::size_t first = number.find_first_of("0123456789");
    std::size_t end = number.find_first_not_of("0123456789", first);
    end = end == std::string::npos ? number.size() : end;
    for (std::size_t at = end; at > first + 3; at -= 3) {
        number.insert(at - 3, ",");
    }
}

std::string based_integer(Integer value, unsigned base, bool upper) {
    if (base == 10) {
        return integer_text(value);
    }
    const bool negative = value < 0;
    std::string digits;
    while (value != 0 || digits.empty()) {
        const int digit = std::abs(static_cast<int>(value % static_cast<int>(base)));
        digits += (upper ? "0123456789ABCDEF" : "0123456789abcdef")[digit];
        value /= static_cast<int>(base);
    }
    if (negative) {
        digits += '-';
    }
    std::reverse(digits.begin(), digits.end());
    return digits;
}

void add_sign(std::string& number, char sign) {
    if (sign != '-' && number[0] != '-') {
        number.insert(0, 1, sign);
    }
}

}  // namespace

std::string pad(const std::string& text, const FormatSpec& spec, char default_align) {
    const auto size = static_cast<int>(std::min<std::size_t>(count_code_points(text), kFieldMax));
    const int missing = std::max(0, spec.width - size);
    const char align = spec.align != 0 ? spec.align : default_align;
    const int left = align == '<' ? 0 : (align == '^' ? missing / 2 : missing);
    std::string out;
    std::size_t digits_at = 0;
    if (align == '=' && !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ')) {
        out += text[0];
        digits_at = 1;
    }
    for (int i = 0; i < left; ++i) {
        out += spec.fill;
    }
    out.append(text, digits_at);
    for (int i = left; i < missing; ++i) {
        out += spec.fill;
    }
    return out;
}

std::string printf_float(double value, char type, int precision, bool alternate) {
    if (!std::isfinite(value)) {
        std::string text = float_repr(value);
        return type >= 'A' && type <= 'Z' ? upper_text(text) : text;
    }
    std::string pattern = alternate ? "%#.*" : "%.*";
    pattern += type;
    char buffer[kFieldMax + 512];
    // The pattern is made of the few characters above; the buffer holds the largest double and the
    // greatest precision allowed.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    std::snprintf(buffer, sizeof(buffer), pattern.c_str(), precision, value);
#pragma GCC diagnostic pop
    return buffer;
}

Result<std::string> format_float(double value, const FormatSpec& spec) {
    std::string text;
    const int precision = spec.precision < 0 ? 6 : spec.precision;
    switch (spec.type) {
        case 0:
            text = spec.precision < 0 ? float_repr(value)
                                      : printf_float(value, 'g', std::max(1, precision), false);
            break;
        case '%':
            text = printf_float(value * 100, 'f', precision, spec.alternate) + "%";
            break;
        case 'n':
            text = printf_float(value, 'g', precision, spec.alternate);
            break;
        default:
            text = printf_float(value, spec.type, precision, spec.alternate);
    }
    if (spec.thousands) {
        add_thousands(text);
    }
    add_sign(text, spec.sign);
    return pad(text, spec, '>');
}

Result<std::string> format_integer(Integer value, const FormatSpec& spec) {
    if (spec.precision >= 0) {
        return template_error("precision not allowed in integer format specifier");
    }
    std::string text;
    if (spec.type == 'c') {
        if (value < 0 || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
            return template_error("%c arg not in range(0x110000)");
        }
        append_code_point(text, static_cast<char32_t>(value));
        return pad(text, spec, '<');
    }
    const char lower = static_cast<char>(spec.type | 0x20);
    const unsigned base = lower == 'x' ? 16 : (lower == 'o' ? 8 : (lower == 'b' ? 2 : 10));
    text = based_integer(value, base, spec.type == 'X');
    if (spec.alternate && base != 10) {
        text.insert(text[0] == '-' ? 1 : 0, std::string("0") + spec.type);
    }
    if (spec.thousands) {
        add_thousands(text);
    }
    add_sign(text, spec.sign);
    return pad(text, spec, '>');
}

bool is_float_type(char type) {
    return type != 0 && std::string_view("eEfFgGn%").find(type) != std::string_view::npos;
}

Result<std::optional<int>> read_number(std::string_view text, std::size_t& at) {
    std::optional<int> number;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
        number = number.value_or(0) * 10 + (text[at++] - '0');
        if (*number > kFieldMax) {
            return template_error("a format is wider than " + std::to_string(kFieldMax));
        }
    }
    return number;
}

}  // namespace ballast::chat
