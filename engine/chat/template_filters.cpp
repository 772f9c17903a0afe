// SPDX-License-Identifier: MIT
// Filters of text, numbers and single values, and the dispatch of all.
#include "engine/chat/template_filters.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "engine/chat/template_arguments.h"
#include "engine/chat/template_format.h"
#include "engine/chat/template_markup.h"
#include "engine/chat/template_methods.h"
#include "engine/chat/template_operators.h"
#include "engine/chat/template_print.h"
#include "engine/chat/template_text.h"

namespace ballast::chat {

namespace {

/// The filter's value as str(value), paid for.
Result<std::string> input_text(const FilterCall& call) {
    BALLAST_TRY_STATUS(call.heap().spend(1));
    return to_str(call.values, call.value);
}

/// A string that is markup if the filter's value is.
Result<Value> like_input(const FilterCall& call, std::string text) {
    return is_markup(call.value) ? call.values.markup(std::move(text))
                                 : call.values.string(std::move(text));
}

Result<Value> filter_case(const FilterCall& call) {
    BALLAST_TRY_STATUS(expect_no_arguments(call.name, call.arguments));
    BALLAST_TRY(const auto text, input_text(call));
    BALLAST_TRY_STATUS(call.heap().spend(text.size() / 4));
    if (call.name == "upper") {
        return like_input(call, upper_text(text));
    }
    if (call.name == "lower") {
        return like_input(call, lower_text(text));
    }
    return like_input(call, capitalize_text(text));
}

/// Unlike str.title(), words start only after white space and opening brackets.
Result<Value> filter_title(const FilterCall& call) {
    BALLAST_TRY(const auto text, input_text(call));
    BALLAST_TRY_STATUS(call.heap().spend(text.size() / 4));
    std::string out;
    bool word_start = true;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t n = code_point_bytes(text, at);
        const char32_t c = code_point_at(text, at);
        const std::string_view one = std::string_view(text).substr(at, n);
        const bool breaks = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
        out += word_start ? upper_text(one) : lower_text(one);
        word_start = breaks;
        at += n;
    }
    return call.values.string(std::move(out));
}

Result<Value> filter_trim(const FilterCall& call) {
    BALLAST_TRY(const auto bound, BoundArguments::bind(call.name, call.arguments, {"chars"}));
    BALLAST_TRY(const auto text, input_text(call));
    if (!bound.given(0) || bound.value(0).is(Kind::kNone)) {
        return like_input(call, std::string(strip_space(text, Side::kBoth)));
    }
    BALLAST_TRY(const auto characters, bound.text(0, ""));
    BALLAST_TRY_STATUS(call.heap().spend(characters.size() + text.size() / 4));
    return like_input(call, std::string(strip_characters(text, characters, Side::kBoth)));
}

Result<Value> filter_string(const FilterCall& call) {
    if (call.value.is(Kind::kString)) {
        return call.value;
    }
    BALLAST_TRY(auto text, input_text(call));
    return call.values.string(std::move(text));
}

Result<Value> filter_safe(const FilterCall& call) {
    BALLAST_TRY(const auto text, filter_string(call));
    return as_markup(call.values, text);
}

Result<Value> filter_escape(const FilterCall& call) {
    if (is_markup(call.value) && call.name != "forceescape") {
        return call.value;
    }
    BALLAST_TRY(const auto text, input_text(call));
    return escape_text(call.values, text);
}

Result<Value> filter_replace(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"old", "new", "count"}, 2));
    BALLAST_TRY(const auto text, input_text(call));
    BALLAST_TRY(const auto from, to_str(call.values, bound.value(0)));
    BALLAST_TRY(const auto to, to_str(call.values, bound.value(1)));
    BALLAST_TRY(const std::int64_t count, bound.integer(2, -1));
    return replace_text(call.values, text, from, to, count);
}

Result<Value> filter_indent(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"width", "first", "blank"}));
    if (!call.value.is(Kind::kString)) {
        return template_error("indent needs a string, not " + type_name(call.value));
    }
    std::string indention;
    if (bound.value(0).is(Kind::kString)) {
        indention = bound.value(0).text();
    } else {
        BALLAST_TRY(const std::int64_t width, bound.integer(0, 4));
        BALLAST_TRY_STATUS(
            call.heap().ensure(static_cast<std::uint64_t>(std::max<std::int64_t>(width, 0))));
        indention.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
    const bool blank = bound.truth(2, false);
    const std::string text = call.value.text() + "\n";
    BALLAST_TRY_STATUS(call.heap().spend(text.size() / 8));
    BALLAST_TRY_STATUS(call.heap().ensure(text.size(), sizeof(std::string_view)));
    std::string out = bound.truth(1, false) ? indention : "";
    bool first = true;
    for (const std::string_view line : split_lines(text)) {
        if (!first) {
            out += '\n';
            if (blank || !line.empty()) {
                BALLAST_TRY_STATUS(call.heap().ensure(out.size() + indention.size()));
                out += indention;
            }
        }
        first = false;
        out += line;
    }
    return like_input(call, std::move(out));
}

Result<Value> filter_truncate(const FilterCall& call) {
    BALLAST_TRY(
        const auto bound,
        BoundArguments::bind(call.name, call.arguments, {"length", "killwords", "end", "leeway"}));
    BALLAST_TRY(const auto text, input_text(call));
    BALLAST_TRY(const std::int64_t length_max, bound.integer(0, 255));
    BALLAST_TRY(const auto end, bound.text(2, "..."));
    BALLAST_TRY(const std::int64_t leeway, bound.integer(3, 5));
    const auto size = static_cast<std::int64_t>(count_code_points(text));
    const auto end_size = static_cast<std::int64_t>(count_code_points(end));
    if (length_max < end_size || leeway < 0) {
        return template_error("truncate() needs a length of at least that of its end");
    }
    if (size - leeway <= length_max) {
        return call.values.string(text);
    }
    std::string kept =
        text.substr(0, byte_offset(text, static_cast<std::size_t>(length_max - end_size)));
    if (!bound.truth(1, false)) {
        kept.resize(std::min(kept.rfind(' '), kept.size()));
    }
    return call.values.string(kept + end);
}

Result<Value> filter_center(const FilterCall& call) {
    BALLAST_TRY(auto text, filter_string(call));
    Arguments width = call.arguments;
    if (width.positional.empty() && width.named.empty()) {
        width.positional.push_back(Value::integer(80));
    }
    return call_method(call.values, text, "center", width);
}

Result<Value> filter_wordcount(const FilterCall& call) {
    BALLAST_TRY(const auto text, input_text(call));
    BALLAST_TRY_STATUS(call.heap().ensure(text.size(), sizeof(std::string_view)));
    std::int64_t words = 0;
    for (const std::string_view run : split_text(text, "", -1, false)) {
        // As \w+ counts: runs of letters, digits and underscores.
        bool inside = false;
        for (std::size_t at = 0; at < run.size(); at += code_point_bytes(run, at)) {
            const char32_t c = code_point_at(run, at);
            const bool word = is_letter(c) || c == '_' || (c >= '0' && c <= '9');
            words += word && !inside ? 1 : 0;
            inside = word;
        }
    }
    return Value::integer(words);
}

Result<Value> filter_format(const FilterCall& call) {
    if (!call.arguments.positional.empty() && !call.arguments.named.empty()) {
        return template_error("can't handle positional and keyword arguments at the same time");
    }
    BALLAST_TRY(const auto text, input_text(call));
    if (call.arguments.named.empty()) {
        BALLAST_TRY(const auto tuple, call.values.tuple(call.arguments.positional));
        BALLAST_TRY(const auto pattern, filter_string(call));
        return arithmetic(call.values, Operator::kModulo, pattern, tuple);
    }
    Entries entries;
    for (const auto& [name, value] : call.arguments.named) {
        BALLAST_TRY(auto key, call.values.string(name));
        entries.emplace_back(std::move(key), value);
    }
    BALLAST_TRY(const auto dict, call.values.dict(std::move(entries)));
    return percent_format(call.values, text, dict);
}

Result<Value> filter_default(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"default_value", "boolean"}));
    const bool replaced =
        call.value.is(Kind::kUndefined) || (bound.truth(1, false) && !truthy(call.value));
    if (!replaced) {
        return call.value;
    }
    return bound.given(0) ? Result<Value>(bound.value(0)) : call.values.string("");
}

/// The number a string writes, with Python's white space and underscores; nothing if it is none.
std::optional<Integer> read_integer(std::string_view text, unsigned base) {
    text = strip_space(text, Side::kBoth);
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) {
        text.remove_prefix(1);
    }
    const char prefix = base == 16 ? 'x' : (base == 8 ? 'o' : (base == 2 ? 'b' : 0));
    if (prefix != 0 && text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == prefix) {
        text.remove_prefix(2);
    }
    Integer value = 0;
    bool digit_before = false;
    for (const char c : text) {
        if (c == '_' && digit_before) {
            digit_before = false;
            continue;
        }
        const int lower = c | 0x20;
        const int digit = c >= '0' && c <= '9'           ? c - '0'
                          : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10
                                                         : 99;
        if (digit >= static_cast<int>(base) ||
            __builtin_mul_overflow(value, Integer{base}, &value) ||
            __builtin_add_overflow(value, Integer{digit}, &value)) {
            return std::nullopt;
        }
        digit_before = true;
    }
    return digit_before ? std::optional<Integer>(negative ? -value : value) : std::nullopt;
}

std::optional<double> read_float(std::string_view text) {
    std::string cleaned;
    for (const char c : strip_space(text, Side::kBoth)) {
        if (c != '_') {
            cleaned += c;
        }
    }
    const std::string lower = lower_text(cleaned);
    const std::string_view unsigned_part = lower.starts_with('-') || lower.starts_with('+')
                                               ? std::string_view(lower).substr(1)
                                               : lower;
    const bool named =
        unsigned_part == "nan" || unsigned_part == "inf" || unsigned_part == "infinity";
    // strtod would also read hexadecimal.
    if (!named &&
        (lower.empty() || lower.find_first_not_of("0123456789.e+-") != std::string::npos)) {
        return std::nullopt;
    }
    char* end = nullptr;
    const double value = std::strtod(cleaned.c_str(), &end);
    return end == cleaned.c_str() + cleaned.size() ? std::optional<double>(value) : std::nullopt;
}

/// int(float), if it fits.
std::optional<Integer> whole_part(double value) {
    if (!(std::fabs(value) < 1e38)) {
        return std::nullopt;
    }
    return static_cast<Integer>(value);
}

Result<Value> filter_int(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"default", "base"}));
    BALLAST_TRY(const std::int64_t base, bound.integer(1, 10));
    if (base < 2 || base > 36) {
        return template_error("int() base must be >= 2 and <= 36");
    }
    std::optional<Integer> number;
    if (call.value.is(Kind::kUndefined)) {
        return undefined_error(call.value);
    }
    if (call.value.is_integral()) {
        number = call.value.as_integer();
    } else if (call.value.is(Kind::kFloat)) {
        number = whole_part(call.value.as_double());
    } else if (call.value.is(Kind::kString)) {
        number = read_integer(call.value.text(), static_cast<unsigned>(base));
        if (!number) {
            if (const auto real = read_float(call.value.text())) {
                number = whole_part(*real);
            }
        }
    }
    if (number) {
        return Value::integer(*number);
    }
    return bound.given(0) ? bound.value(0) : Value::integer(0);
}

Result<Value> filter_float(const FilterCall& call) {
    BALLAST_TRY(const auto bound, BoundArguments::bind(call.name, call.arguments, {"default"}));
    std::optional<double> number;
    if (call.value.is(Kind::kUndefined)) {
        return undefined_error(call.value);
    }
    if (call.value.is_number()) {
        number = call.value.as_double();
    } else if (call.value.is(Kind::kString)) {
        number = read_float(call.value.text());
    }
    if (number) {
        return Value::real(*number);
    }
    return bound.given(0) ? bound.value(0) : Value::real(0);
}

Result<Value> filter_abs(const FilterCall& call) {
    if (call.value.is(Kind::kFloat)) {
        return Value::real(std::fabs(call.value.as_double()));
    }
    if (call.value.is_integral()) {
        return call.value.as_integer() < 0 ? negate(call.value)
                                           : Value::integer(call.value.as_integer());
    }
    return template_error("bad operand type for abs(): '" + type_name(call.value) + "'");
}

Result<Value> filter_round(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"precision", "method"}));
    BALLAST_TRY(const std::int64_t precision, bound.integer(0, 0));
    BALLAST_TRY(const auto method, bound.text(1, "common"));
    if (method != "common" && method != "ceil" && method != "floor") {
        return template_error("method must be common, ceil or floor");
    }
    if (!call.value.is_number()) {
        return call.value.is(Kind::kUndefined)
                   ? Result<Value>(undefined_error(call.value))
                   : template_error("type " + type_name(call.value) + " doesn't define __round__");
    }
    const double value = call.value.as_double();
    const int digits = static_cast<int>(std::clamp<std::int64_t>(precision, -300, 300));
    if (method == "common") {
        if (call.value.is_integral() && digits >= 0) {
            return Value::integer(call.value.as_integer());
        }
        if (digits >= 0 && std::isfinite(value)) {
            return Value::real(std::strtod(fixed_text(value, digits).c_str(), nullptr));
        }
        const double unit = std::pow(10.0, -digits);
        const double rounded = std::nearbyint(value / unit) * unit;
        const auto whole = whole_part(rounded);
        return call.value.is_integral() && whole ? Value::integer(*whole) : Value::real(rounded);
    }
    const double scale = std::pow(10.0, digits);
    const double scaled = value * scale;
    return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result<Value> filter_tojson(const FilterCall& call) {
    BALLAST_TRY(
        const auto bound,
        BoundArguments::bind(
            call.name, call.arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
    JsonStyle style;
    style.ascii = bound.truth(0, false);
    style.sort_keys = bound.truth(3, false);
    const Value indent = bound.value(1);
    if (indent.is(Kind::kString)) {
        style.indent = indent.text();
    } else if (bound.given(1) && !indent.is(Kind::kNone)) {
        BALLAST_TRY(const std::int64_t width, bound.integer(1, 0));
        if (width > 1024) {
            return template_error("tojson() cannot indent that far");
        }
        style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
    if (style.indent) {
        style.item_separator = ",";
    }
    if (bound.given(2) && !bound.value(2).is(Kind::kNone)) {
        const Value pair = bound.value(2);
        if (!pair.is_sequence() || pair.items().size() != 2 || !pair.items()[0].is(Kind::kString) ||
            !pair.items()[1].is(Kind::kString)) {
            return template_error("tojson() needs separators as a pair of strings");
        }
        style.item_separator = pair.items()[0].text();
        style.key_separator = pair.items()[1].text();
    }
    std::string out;
    BALLAST_TRY_STATUS(append_json(call.values, out, call.value, style));
    return call.values.string(std::move(out));
}

struct FilterEntry {
    std::string_view name;
    Filter filter;
};

constexpr FilterEntry kFilters[] = {
    {"abs", filter_abs},       {"capitalize", filter_case},     {"center", filter_center},
    {"d", filter_default},     {"default", filter_default},     {"e", filter_escape},
    {"escape", filter_escape}, {"float", filter_float},         {"forceescape", filter_escape},
    {"format", filter_format}, {"indent", filter_indent},       {"int", filter_int},
    {"lower", filter_case},    {"replace", filter_replace},     {"round", filter_round},
    {"safe", filter_safe},     {"string", filter_string},       {"title", filter_title},
    {"tojson", filter_tojson}, {"trim", filter_trim},           {"truncate", filter_truncate},
    {"upper", filter_case},    {"wordcount", filter_wordcount},
};

Filter find_filter(std::string_view name) {
    for (const FilterEntry& entry : kFilters) {
        if (entry.name == name) {
            return entry.filter;
        }
    }
    return find_sequence_filter(name);
}

}  // namespace

bool has_filter(std::string_view name) {
    return find_filter(name) != nullptr;
}

Result<Value> apply_filter(const Values& values,
                           std::string_view name,
                           const Value& value,
                           const Arguments& arguments) {
    BALLAST_TRY_STATUS(values.heap().spend(1));
    const Filter filter = find_filter(name);
    if (filter == nullptr) {
        return template_error("No filter named '" + std::string(name.substr(0, 80)) + "' found.");
    }
    return filter(FilterCall{values, name, value, arguments});
}

}  // namespace ballast::chat
