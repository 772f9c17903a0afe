// SPDX-License-Identifier: MIT
// str(), repr() and JSON. Every recursion here is over containers, whose nesting is bounded where
// they are made; the size of the text is checked as it grows, since containers may share parts.
#include "engine/chat/template_print.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "engine/chat/template_callable.h"
#include "engine/chat/template_operators.h"
#include "engine/chat/template_text.h"

namespace ballast::chat {

namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

void append_hex(std::string& out, char32_t value, int digits) {
    for (int i = digits - 1; i >= 0; --i) {
        out += kHexDigits[(value >> (4 * i)) & 0xF];
    }
}

/// What str.isprintable() refuses, as far as ranges tell: controls, separators, surrogates, format
/// characters and private use.
bool is_printable(char32_t c) {
    if (c == ' ') {
        return true;
    }
    const bool format = c == 0xAD || (c >= 0x600 && c <= 0x605) || c == 0x61C || c == 0x6DD ||
                        c == 0x70F || c == 0x180E || (c >= 0x200B && c <= 0x200F) ||
                        (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) ||
                        c == 0xFEFF || (c >= 0xFFF0 && c <= 0xFFFB) ||
                        (c >= 0xE0000 && c <= 0xE0FFF);
    const bool private_use = (c >= 0xE000 && c <= 0xF8FF) || c >= 0xF0000;
    return !(c < 0x20 || (c >= 0x7F && c < 0xA0) || is_space(c) || format || private_use);
}

/// `[1, 2]`, `(1,)`, `dict_keys([...])`.
Status append_items(const Values& values, std::string& out, const std::vector<Value>& items) {
    bool first = true;
    for (const Value& item : items) {
        if (!first) {
            out += ", ";
        }
        first = false;
        BALLAST_TRY_STATUS(append_repr(values, out, item));
    }
    return {};
}

Status append_entries(const Values& values, std::string& out, const Entries& entries) {
    out += '{';
    bool first = true;
    for (const auto& [key, value] : entries) {
        if (!first) {
            out += ", ";
        }
        first = false;
        BALLAST_TRY_STATUS(append_repr(values, out, key));
        out += ": ";
        BALLAST_TRY_STATUS(append_repr(values, out, value));
    }
    out += '}';
    return {};
}

Status append_container(const Values& values, std::string& out, const Value& value) {
    switch (value.kind()) {
        case Kind::kList:
            out += '[';
            BALLAST_TRY_STATUS(append_items(values, out, value.items()));
            out += ']';
            return {};
        case Kind::kTuple:
            out += '(';
            BALLAST_TRY_STATUS(append_items(values, out, value.items()));
            out += value.items().size() == 1 ? ",)" : ")";
            return {};
        case Kind::kDict:
            return append_entries(values, out, value.dict().entries);
        case Kind::kView: {
            BALLAST_TRY(const auto items, collect(values, value));
            out += type_name(value) + "([";
            BALLAST_TRY_STATUS(append_items(values, out, items));
            out += "])";
            return {};
        }
        case Kind::kRange: {
            const RangeValue& range = value.range();
            out += "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
            out += range.step == 1 ? ")" : ", " + std::to_string(range.step) + ")";
            return {};
        }
        case Kind::kNamespace:
            // Its members may lead back to it, so they are not printed.
            out += "<Namespace>";
            return {};
        case Kind::kCallable:
            if (value.callable().kind == CallableKind::kMacro) {
                out += "<Macro " + string_repr(value.callable().name) + ">";
                return {};
            }
            out += "<" + type_name(value) + ">";
            return {};
        default:
            out += "<" + type_name(value) + " object>";
            return {};
    }
}

void append_json_string(std::string& out, std::string_view text, bool ascii) {
    out += '"';
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t n = code_point_bytes(text, at);
        const char32_t c = code_point_at(text, at);
        constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
        constexpr std::string_view kNames = "\"\\nrtfb";
        const std::size_t escape = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : kEscaped.npos;
        if (escape != kEscaped.npos) {
            out += '\\';
            out += kNames[escape];
        } else if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
            out += "\\u";
            append_hex(out, c, 4);
        } else if (ascii && c >= 0x10000) {
            out += "\\u";
            append_hex(out, 0xD800 + ((c - 0x10000) >> 10), 4);
            out += "\\u";
            append_hex(out, 0xDC00 + ((c - 0x10000) & 0x3FF), 4);
        } else {
            out.append(text, at, n);
        }
        at += n;
    }
    out += '"';
}

std::string json_number(double value) {
    if (std::isnan(value)) {
        return "NaN";
    }
    if (std::isinf(value)) {
        return value > 0 ? "Infinity" : "-Infinity";
    }
    return float_repr(value);
}

/// Keys of other scalar types become strings, as json.dumps does it.
Result<std::string> json_key(const Value& key) {
    switch (key.kind()) {
        case Kind::kString:
            return key.text();
        case Kind::kNone:
            return std::string("null");
        case Kind::kBool:
            return std::string(key.as_bool() ? "true" : "false");
        case Kind::kInteger:
            return integer_text(key.as_integer());
        case Kind::kFloat:
            return json_number(key.as_double());
        default:
            return template_error("keys must be str, int, float, bool or None, not " +
                                  type_name(key));
    }
}

void append_break(std::string& out, const JsonStyle& style, std::uint32_t level) {
    if (style.indent) {
        out += '\n';
        for (std::uint32_t i = 0; i < level; ++i) {
            out += *style.indent;
        }
    }
}

Status append_json_items(const Values& values,
                         std::string& out,
                         const std::vector<Value>& items,
                         const JsonStyle& style,
                         std::uint32_t level) {
    if (items.empty()) {
        out += "[]";
        return {};
    }
    out += '[';
    bool first = true;
    for (const Value& item : items) {
        if (!first) {
            out += style.item_separator;
        }
        first = false;
        append_break(out, style, level + 1);
        BALLAST_TRY_STATUS(append_json(values, out, item, style, level + 1));
    }
    append_break(out, style, level);
    out += ']';
    return {};
}

Result<Entries> sorted_entries(const Values& values, const Entries& entries) {
    std::vector<Value> order;
    order.reserve(entries.size());
    for (const auto& [key, value] : entries) {
        BALLAST_TRY(auto pair, values.pair(key, value));
        order.push_back(std::move(pair));
    }
    BALLAST_TRY_STATUS(sort_values(values, order, false));
    Entries sorted;
    sorted.reserve(order.size());
    for (const Value& pair : order) {
        sorted.emplace_back(pair.items()[0], pair.items()[1]);
    }
    return sorted;
}

Status append_json_entries(const Values& values,
                           std::string& out,
                           const Entries& entries,
                           const JsonStyle& style,
                           std::uint32_t level) {
    if (entries.empty()) {
        out += "{}";
        return {};
    }
    out += '{';
    bool first = true;
    for (const auto& [key, value] : entries) {
        if (!first) {
            out += style.item_separator;
        }
        first = false;
        append_break(out, style, level + 1);
        BALLAST_TRY(const auto name, json_key(key));
        append_json_string(out, name, style.ascii);
        out += style.key_separator;
        BALLAST_TRY_STATUS(append_json(values, out, value, style, level + 1));
    }
    append_break(out, style, level);
    out += '}';
    return {};
}

}  // namespace

std::string integer_text(Integer value) {
    if (value == 0) {
        return "0";
    }
    std::string digits;
    const bool negative = value < 0;
    while (value != 0) {
        const int digit = static_cast<int>(value % 10);
        digits += static_cast<char>('0' + (digit < 0 ? -digit : digit));
        value /= 10;
    }
    if (negative) {
        digits += '-';
    }
    std::reverse(digits.begin(), digits.end());
    return digits;
}

std::string float_repr(double value) {
    if (std::isnan(value)) {
        return "nan";
    }
    if (std::isinf(value)) {
        return value > 0 ? "inf" : "-inf";
    }
    std::array<char, 64> buffer{};
    const auto [end, error] = std::to_chars(
        buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
    const std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    const std::size_t e = text.find('e');
    std::string digits;
    for (const char c : text.substr(0, e)) {
        if (c >= '0' && c <= '9') {
            digits += c;
        }
    }
    int exponent = 0;
    const std::size_t sign_skip = text[e + 1] == '+' ? 2 : 1;
    std::from_chars(text.data() + e + sign_skip, text.data() + text.size(), exponent);
    std::string out = std::signbit(value) ? "-" : "";
    const int n = static_cast<int>(digits.size());
    if (exponent < -4 || exponent >= 16) {
        out += digits[0];
        if (n > 1) {
            out += '.' + digits.substr(1);
        }
        const std::string magnitude = std::to_string(std::abs(exponent));
        out += exponent < 0 ? "e-" : "e+";
        return out + (magnitude.size() < 2 ? "0" : "") + magnitude;
    }
    if (exponent < 0) {
        return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
    }
    if (n <= exponent + 1) {
        return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - n), '0') + ".0";
    }
    const auto whole = static_cast<std::size_t>(exponent + 1);
    return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string string_repr(std::string_view text) {
    const bool double_quoted =
        text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
    const char quote = double_quoted ? '"' : '\'';
    std::string out(1, quote);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t n = code_point_bytes(text, at);
        const char32_t c = code_point_at(text, at);
        if (c == '\\' || c == static_cast<char32_t>(quote)) {
            out += '\\';
            out += static_cast<char>(c);
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\r') {
            out += "\\r";
        } else if (c == '\t') {
            out += "\\t";
        } else if (is_printable(c)) {
            out.append(text, at, n);
        } else if (c < 0x100) {
            out += "\\x";
            append_hex(out, c, 2);
        } else if (c < 0x10000) {
            out += "\\u";
            append_hex(out, c, 4);
        } else {
            out += "\\U";
            append_hex(out, c, 8);
        }
        at += n;
    }
    return out + quote;
}

Status append_str(const Values& values, std::string& out, const Value& value) {
    BALLAST_TRY_STATUS(values.heap().spend(1));
    switch (value.kind()) {
        case Kind::kUndefined:
            return {};
        case Kind::kString:
            BALLAST_TRY_STATUS(values.heap().spend_bytes(value.text().size()));
            BALLAST_TRY_STATUS(values.heap().ensure(out.size() + value.text().size()));
            out += value.text();
            return {};
        default:
            return append_repr(values, out, value);
    }
}

Status append_repr(const Values& values, std::string& out, const Value& value) {
    BALLAST_TRY_STATUS(values.heap().spend(1));
    BALLAST_TRY_STATUS(values.heap().ensure(out.size()));
    switch (value.kind()) {
        case Kind::kUndefined:
            out += "Undefined";
            return {};
        case Kind::kNone:
            out += "None";
            return {};
        case Kind::kBool:
            out += value.as_bool() ? "True" : "False";
            return {};
        case Kind::kInteger:
            out += integer_text(value.as_integer());
            return {};
        case Kind::kFloat:
            out += float_repr(value.as_double());
            return {};
        case Kind::kString:
            BALLAST_TRY_STATUS(values.heap().spend(value.text().size() / 16));
            BALLAST_TRY_STATUS(values.heap().ensure(out.size() + 4 * value.text().size()));
            out += string_repr(value.text());
            return {};
        default:
            return append_container(values, out, value);
    }
}

Result<std::string> to_str(const Values& values, const Value& value) {
    std::string out;
    BALLAST_TRY_STATUS(append_str(values, out, value));
    return out;
}

Status append_json(const Values& values,
                   std::string& out,
                   const Value& value,
                   const JsonStyle& style,
                   std::uint32_t level) {
    BALLAST_TRY_STATUS(values.heap().spend(1));
    BALLAST_TRY_STATUS(
        values.heap().ensure(out.size() + (style.indent ? level * style.indent->size() : 0)));
    switch (value.kind()) {
        case Kind::kNone:
            out += "null";
            return {};
        case Kind::kBool:
            out += value.as_bool() ? "true" : "false";
            return {};
        case Kind::kInteger:
            out += integer_text(value.as_integer());
            return {};
        case Kind::kFloat:
            out += json_number(value.as_double());
            return {};
        case Kind::kString:
            BALLAST_TRY_STATUS(values.heap().spend(value.text().size() / 16));
            BALLAST_TRY_STATUS(values.heap().ensure(out.size() + 6 * value.text().size()));
            append_json_string(out, value.text(), style.ascii);
            return {};
        case Kind::kList:
        case Kind::kTuple:
            return append_json_items(values, out, value.items(), style, level);
        case Kind::kDict: {
            if (!style.sort_keys) {
                return append_json_entries(values, out, value.dict().entries, style, level);
            }
            BALLAST_TRY(const auto entries, sorted_entries(values, value.dict().entries));
            return append_json_entries(values, out, entries, style, level);
        }
        default:
            return template_error("Object of type " + type_name(value) +
                                  " is not JSON serializable");
    }
}

}  // namespace ballast::chat
