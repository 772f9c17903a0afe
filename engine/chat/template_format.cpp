// SPDX-License-Identifier: MIT
// Fields are parsed into a FormatSpec; what it means is in template_format_spec.cpp.
#include "engine/chat/template_format.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/chat/template_format_spec.h"
#include "engine/chat/template_operators.h"
#include "engine/chat/template_print.h"
#include "engine/chat/template_text.h"

namespace ballast::chat {

namespace {

Result<FormatSpec> parse_brace_spec(std::string_view text) {
    FormatSpec spec;
    std::size_t at = 0;
    const auto is_align = [&](std::size_t i) {
        return i < text.size() && std::string_view("<>^=").find(text[i]) != std::string_view::npos;
    };
    const std::size_t first = text.empty() ? 0 : code_point_bytes(text, 0);
    if (first > 0 && is_align(first)) {
        spec.fill = text.substr(0, first);
        spec.align = text[first];
        at = first + 1;
    } else if (is_align(0)) {
        spec.align = text[at++];
    }
    if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) {
        spec.sign = text[at++];
    }
    if (at < text.size() && text[at] == '#') {
        spec.alternate = true;
        ++at;
    }
    if (at < text.size() && text[at] == '0') {
        if (spec.align == 0) {
            spec.fill = "0";
            spec.align = '=';
        }
        ++at;
    }
    BALLAST_TRY(const auto width, read_number(text, at));
    spec.width = width.value_or(0);
    if (at < text.size() && text[at] == ',') {
        spec.thousands = true;
        ++at;
    }
    if (at < text.size() && text[at] == '.') {
        ++at;
        BALLAST_TRY(const auto precision, read_number(text, at));
        if (!precision) {
            return template_error("Format specifier missing precision");
        }
        spec.precision = *precision;
    }
    if (at < text.size()) {
        spec.type = text[at++];
    }
    const bool known =
        std::string_view("\0bcdeEfFgGnosxX%", 16).find(spec.type) != std::string_view::npos;
    if (at != text.size() || !known) {
        return template_error("Invalid format specifier");
    }
    return spec;
}

Result<std::string> format_brace_value(const Values& values,
                                       const Value& value,
                                       std::string_view spec_text) {
    BALLAST_TRY(FormatSpec spec, parse_brace_spec(spec_text));
    if (spec_text.empty()) {
        return to_str(values, value);
    }
    const auto unknown = [&] {
        return template_error(std::string("Unknown format code '") + spec.type +
                              "' for object of type '" + type_name(value) + "'");
    };
    if (value.is_integral()) {
        if (is_float_type(spec.type) && spec.type != 'n') {
            return format_float(value.as_double(), spec);
        }
        if (spec.type == 's') {
            return unknown();
        }
        return format_integer(value.as_integer(), spec);
    }
    if (value.is(Kind::kFloat)) {
        if (spec.type != 0 && !is_float_type(spec.type)) {
            return unknown();
        }
        return format_float(value.as_double(), spec);
    }
    if (!value.is(Kind::kString)) {
        return template_error("unsupported format string passed to " + type_name(value) +
                              ".__format__");
    }
    if (spec.type != 0 && spec.type != 's') {
        return unknown();
    }
    BALLAST_TRY(std::string text, to_str(values, value));
    if (spec.precision >= 0) {
        text.resize(byte_offset(text, static_cast<std::size_t>(spec.precision)));
    }
    return pad(text, spec, '<');
}

/// `name.attribute[key]` of a replacement field, without its first part.
Result<Value> follow_field(const Values& values, Value value, std::string_view path) {
    while (!path.empty()) {
        if (path[0] == '.') {
            const std::size_t end = std::min(path.find_first_of(".[", 1), path.size());
            BALLAST_TRY(value, get_attribute(values, value, path.substr(1, end - 1)));
            path.remove_prefix(end);
        } else {
            const std::size_t end = path.find(']');
            if (path[0] != '[' || end == std::string_view::npos) {
                return template_error("a replacement field is malformed");
            }
            const std::string_view key = path.substr(1, end - 1);
            std::size_t digits = 0;
            BALLAST_TRY(const auto number, read_number(key, digits));
            const bool numeric = number && digits == key.size();
            BALLAST_TRY(auto text, values.string(key));
            BALLAST_TRY(value, get_item(values, value, numeric ? Value::integer(*number) : text));
            path.remove_prefix(end + 1);
        }
    }
    return value;
}

class BraceFormatter {
  public:
    BraceFormatter(const Values& values, const Arguments& arguments)
        : values_(values), arguments_(arguments) {}

    Result<std::string> run(std::string_view text, int nesting) {
        std::string out;
        for (std::size_t at = 0; at < text.size();) {
            const char c = text[at];
            if (c != '{' && c != '}') {
                out += c;
                ++at;
                continue;
            }
            if (at + 1 < text.size() && text[at + 1] == c) {
                out += c;
                at += 2;
                continue;
            }
            const std::size_t end = c == '{' ? field_end(text, at) : std::string_view::npos;
            if (end == std::string_view::npos) {
                return template_error(std::string("Single '") + c +
                                      "' encountered in format string");
            }
            BALLAST_TRY(const auto piece, field(text.substr(at + 1, end - at - 1), nesting));
            BALLAST_TRY_STATUS(values_.heap().spend_bytes(piece.size()));
            BALLAST_TRY_STATUS(values_.heap().ensure(out.size() + piece.size()));
            out += piece;
            at = end + 1;
        }
        return out;
    }

  private:
    static std::size_t field_end(std::string_view text, std::size_t begin) {
        int open = 0;
        for (std::size_t at = begin; at < text.size(); ++at) {
            open += text[at] == '{' ? 1 : (text[at] == '}' ? -1 : 0);
            if (open == 0) {
                return at;
            }
        }
        return std::string_view::npos;
    }

    Result<Value> argument(std::string_view name) {
        std::size_t at = 0;
        BALLAST_TRY(auto number, read_number(name, at));
        if (name.empty()) {
            number = next_++;
        } else if (at != name.size()) {
            const Value* found = arguments_.find(name);
            if (found == nullptr) {
                return template_error("a format names no argument given");
            }
            return *found;
        }
        if (static_cast<std::size_t>(*number) >= arguments_.positional.size()) {
            return template_error("Replacement index out of range for positional args tuple");
        }
        return arguments_.positional[static_cast<std::size_t>(*number)];
    }

    Result<std::string> field(std::string_view text, int nesting) {
        const std::size_t name_end = std::min(text.find_first_of("!:"), text.size());
        std::string_view name = text.substr(0, name_end);
        const std::size_t first = std::min(name.find_first_of(".["), name.size());
        BALLAST_TRY(Value value, argument(name.substr(0, first)));
        BALLAST_TRY(value, follow_field(values_, std::move(value), name.substr(first)));
        text.remove_prefix(name_end);
        if (text.size() >= 2 && text[0] == '!') {
            std::string converted;
            BALLAST_TRY_STATUS(text[1] == 'r' ? append_repr(values_, converted, value)
                                              : append_str(values_, converted, value));
            BALLAST_TRY(value, values_.string(std::move(converted)));
            text.remove_prefix(2);
        }
        std::string spec(text.empty() ? text : text.substr(1));
        if (spec.find('{') != std::string::npos) {
            if (nesting > 0) {
                return template_error("Max string recursion exceeded");
            }
            BALLAST_TRY(spec, run(spec, nesting + 1));
        }
        return format_brace_value(values_, value, spec);
    }

    const Values& values_;
    const Arguments& arguments_;
    int next_ = 0;
};

class PercentFormatter {
  public:
    PercentFormatter(const Values& values, const Value& argument)
        : values_(values), argument_(argument) {}

    Result<std::string> run(std::string_view text) {
        std::string out;
        for (std::size_t at = 0; at < text.size();) {
            if (text[at] != '%') {
                out += text[at++];
                continue;
            }
            ++at;
            BALLAST_TRY(const auto piece, field(text, at));
            BALLAST_TRY_STATUS(values_.heap().spend_bytes(piece.size()));
            BALLAST_TRY_STATUS(values_.heap().ensure(out.size() + piece.size()));
            out += piece;
        }
        const bool surplus = argument_.is(Kind::kTuple)
                                 ? next_ < argument_.items().size()
                                 : next_ == 0 && !argument_.is(Kind::kDict) &&
                                       !argument_.is(Kind::kList) && !by_name_;
        if (surplus) {
            return template_error("not all arguments converted during string formatting");
        }
        return out;
    }

  private:
    Result<Value> next() {
        const std::size_t at = next_++;
        if (argument_.is(Kind::kTuple) ? at < argument_.items().size() : at == 0) {
            return argument_.is(Kind::kTuple) ? argument_.items()[at] : argument_;
        }
        return template_error("not enough arguments for format string");
    }

    Result<std::string> field(std::string_view text, std::size_t& at) {
        std::optional<Value> value;
        if (at < text.size() && text[at] == '(') {
            const std::size_t end = text.find(')', at);
            if (end == std::string_view::npos || !argument_.is(Kind::kDict)) {
                return template_error("format requires a mapping");
            }
            const Value* found = find_text_key(argument_.dict(), text.substr(at + 1, end - at - 1));
            if (found == nullptr) {
                return template_error("a format names no key given");
            }
            value = *found;
            by_name_ = true;
            at = end + 1;
        }
        FormatSpec spec;
        BALLAST_TRY_STATUS(flags(text, at, spec));
        if (at >= text.size()) {
            return template_error("incomplete format");
        }
        spec.type = text[at++];
        if (spec.type == '%') {
            return std::string("%");
        }
        if (!value) {
            BALLAST_TRY(value, next());
        }
        return convert(*value, spec);
    }

    static Status flags(std::string_view text, std::size_t& at, FormatSpec& spec) {
        bool zero = false;
        for (; at < text.size(); ++at) {
            const char c = text[at];
            if (c == '-') {
                spec.align = '<';
            } else if (c == '+' || (c == ' ' && spec.sign == '-')) {
                spec.sign = c;
            } else if (c == '#') {
                spec.alternate = true;
            } else if (c == '0') {
                zero = true;
            } else if (c != ' ') {
                break;
            }
        }
        if (zero && spec.align == 0) {
            spec.align = '=';
            spec.fill = "0";
        }
        BALLAST_TRY(const auto width, read_number(text, at));
        spec.width = width.value_or(0);
        if (at < text.size() && text[at] == '.') {
            ++at;
            BALLAST_TRY(const auto precision, read_number(text, at));
            spec.precision = precision.value_or(0);
        }
        return {};
    }

    Result<std::string> convert(const Value& value, FormatSpec spec) {
        if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
            std::string text;
            BALLAST_TRY_STATUS(spec.type == 's' ? append_str(values_, text, value)
                                                : append_repr(values_, text, value));
            if (spec.precision >= 0) {
                text.resize(byte_offset(text, static_cast<std::size_t>(spec.precision)));
            }
            spec.fill = " ";
            return pad(text, spec, '>');
        }
        if (spec.type == 'c' && value.is(Kind::kString) && value.string().code_points == 1) {
            return pad(value.text(), spec, '>');
        }
        const bool whole = std::string_view("diuxXoc").find(spec.type) != std::string_view::npos;
        if (!whole && std::string_view("eEfFgG").find(spec.type) == std::string_view::npos) {
            return template_error(std::string("unsupported format character '") + spec.type + "'");
        }
        if (!value.is_number() ||
            (value.is(Kind::kFloat) && whole && !(std::fabs(value.as_double()) < 1e30))) {
            return template_error(std::string("%") + spec.type +
                                  " format: a number is required, not " + type_name(value));
        }
        if (!whole) {
            return format_float(value.as_double(), spec);
        }
        const Integer number =
            value.is(Kind::kFloat) ? static_cast<Integer>(value.as_double()) : value.as_integer();
        spec.precision = -1;
        return format_integer(number, spec);
    }

    const Values& values_;
    const Value& argument_;
    std::size_t next_ = 0;
    bool by_name_ = false;
};

}  // namespace

Result<Value> percent_format(const Values& values, std::string_view text, const Value& argument) {
    BALLAST_TRY_STATUS(values.heap().spend_bytes(text.size()));
    BALLAST_TRY(auto out, PercentFormatter(values, argument).run(text));
    return values.string(std::move(out));
}

Result<Value> brace_format(const Values& values,
                           std::string_view text,
                           const Arguments& arguments) {
    BALLAST_TRY_STATUS(values.heap().spend_bytes(text.size()));
    BALLAST_TRY(auto out, BraceFormatter(values, arguments).run(text, 0));
    return values.string(std::move(out));
}

std::string fixed_text(double value, int digits) {
    return printf_float(value, 'f', std::clamp(digits, 0, kFieldMax), false);
}

}  // namespace ballast::chat
