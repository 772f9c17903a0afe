// SPDX-License-Identifier: MIT
// Methods of strings. Several share a function and tell themselves apart by name.
#include <algorithm>
#include <string>

#include "engine/chat/template_arguments.h"
#include "engine/chat/template_format.h"
#include "engine/chat/template_method_table.h"
#include "engine/chat/template_methods.h"
#include "engine/chat/template_operators.h"
#include "engine/chat/template_text.h"

namespace ballast::chat {

namespace {

Result<Value> method_case(const MethodCall& call) {
    BALLAST_TRY_STATUS(call.values.heap().spend(call.text().size() / 4));
    BALLAST_TRY_STATUS(expect_no_arguments(call.name, call.arguments));
    if (call.name == "upper") {
        return call.values.string(upper_text(call.text()));
    }
    if (call.name == "title") {
        return call.values.string(title_text(call.text()));
    }
    if (call.name == "capitalize") {
        return call.values.string(capitalize_text(call.text()));
    }
    if (call.name == "swapcase") {
        std::string out;
        for (std::size_t at = 0; at < call.text().size();) {
            const std::size_t n = code_point_bytes(call.text(), at);
            const std::string_view one = std::string_view(call.text()).substr(at, n);
            out += is_upper(code_point_at(one, 0)) ? lower_text(one) : upper_text(one);
            at += n;
        }
        return call.values.string(std::move(out));
    }
    return call.values.string(lower_text(call.text()));
}

Result<Value> method_strip(const MethodCall& call) {
    BALLAST_TRY(const auto bound, BoundArguments::bind(call.name, call.arguments, {"chars"}));
    BALLAST_TRY_STATUS(call.values.heap().spend_bytes(call.text().size()));
    const Side side = call.name == "strip"    ? Side::kBoth
                      : call.name == "lstrip" ? Side::kLeft
                                              : Side::kRight;
    if (!bound.given(0) || bound.value(0).is(Kind::kNone)) {
        return call.values.string(strip_space(call.text(), side));
    }
    BALLAST_TRY(const auto characters, bound.text(0, ""));
    return call.values.string(strip_characters(call.text(), characters, side));
}

Result<Value> pieces_list(const Values& values, const std::vector<std::string_view>& pieces) {
    std::vector<Value> items;
    items.reserve(pieces.size());
    for (const std::string_view piece : pieces) {
        BALLAST_TRY(auto item, values.string(piece));
        items.push_back(std::move(item));
    }
    return values.list(std::move(items));
}

/// Before a string is cut at every separator: there may be as many pieces as it has characters.
Status check_pieces(const Values& values, std::string_view text, std::string_view separator) {
    BALLAST_TRY_STATUS(values.heap().spend(text.size() / 16));
    std::uint64_t pieces = 1;
    if (separator.empty()) {
        pieces = text.size() / 2 + 1;
    } else {
        for (std::size_t at = text.find(separator); at != std::string_view::npos;
             at = text.find(separator, at + separator.size())) {
            ++pieces;
        }
    }
    return values.heap().ensure(pieces, sizeof(std::string_view) + sizeof(Value));
}

Result<Value> method_split(const MethodCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"sep", "maxsplit"}));
    BALLAST_TRY(const std::int64_t splits_max, bound.integer(1, -1));
    std::string separator;
    if (bound.given(0) && !bound.value(0).is(Kind::kNone)) {
        BALLAST_TRY(separator, bound.text(0, ""));
        if (separator.empty()) {
            return template_error("empty separator");
        }
    }
    BALLAST_TRY_STATUS(check_pieces(call.values, call.text(), separator));
    return pieces_list(call.values,
                       split_text(call.text(), separator, splits_max, call.name == "rsplit"));
}

Result<Value> method_splitlines(const MethodCall& call) {
    BALLAST_TRY(const auto bound, BoundArguments::bind(call.name, call.arguments, {"keepends"}));
    BALLAST_TRY_STATUS(check_pieces(call.values, call.text(), ""));
    return pieces_list(call.values, split_lines(call.text(), bound.truth(0, false)));
}

Result<Value> method_partition(const MethodCall& call) {
    BALLAST_TRY(const auto bound, BoundArguments::bind(call.name, call.arguments, {"sep"}, 1));
    BALLAST_TRY(const auto separator, bound.text(0, ""));
    if (separator.empty()) {
        return template_error("empty separator");
    }
    const bool from_right = call.name == "rpartition";
    const std::string& text = call.text();
    const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
    std::string parts[3] = {text, "", ""};
    if (at != std::string::npos) {
        parts[0] = text.substr(0, at);
        parts[1] = separator;
        parts[2] = text.substr(at + separator.size());
    } else if (from_right) {
        std::swap(parts[0], parts[2]);
    }
    std::vector<Value> items;
    for (std::string& part : parts) {
        BALLAST_TRY(auto item, call.values.string(std::move(part)));
        items.push_back(std::move(item));
    }
    return call.values.tuple(std::move(items));
}

/// The part of a string that optional start and end arguments leave, and how many code points come
/// before it; nothing when start lies beyond the end.
struct Window {
    std::string_view text;
    std::int64_t skipped = 0;
    bool valid = true;
};

Result<Window> window(const MethodCall& call, const BoundArguments& bound) {
    const auto size = static_cast<std::int64_t>(call.self.string().code_points);
    BALLAST_TRY(std::int64_t start, bound.integer(1, 0));
    BALLAST_TRY(std::int64_t end, bound.integer(2, size));
    start = start < 0 ? std::max<std::int64_t>(0, start + size) : start;
    end = end < 0 ? std::max<std::int64_t>(0, end + size) : std::min(end, size);
    if (start > end) {
        return Window{{}, start, false};
    }
    const std::string_view text = call.text();
    const std::size_t first = byte_offset(text, static_cast<std::size_t>(start));
    const std::size_t last = byte_offset(text, static_cast<std::size_t>(end));
    return Window{text.substr(first, last - first), start, true};
}

Result<Value> method_affix(const MethodCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"prefix", "start", "end"}, 1));
    BALLAST_TRY(const Window part, window(call, bound));
    const bool at_start = call.name == "startswith";
    const auto matches = [&](const std::string& affix) {
        return part.valid && (at_start ? part.text.starts_with(affix) : part.text.ends_with(affix));
    };
    const Value affix = bound.value(0);
    if (affix.is(Kind::kTuple)) {
        for (const Value& one : affix.items()) {
            if (!one.is(Kind::kString)) {
                return template_error(std::string(call.name) + "() needs a tuple of strings");
            }
            BALLAST_TRY_STATUS(call.values.heap().spend_bytes(one.text().size()));
            if (matches(one.text())) {
                return Value::boolean(true);
            }
        }
        return Value::boolean(false);
    }
    BALLAST_TRY(const auto text, bound.text(0, ""));
    return Value::boolean(matches(text));
}

Result<Value> method_find(const MethodCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"sub", "start", "end"}, 1));
    BALLAST_TRY(const auto needle, bound.text(0, ""));
    BALLAST_TRY_STATUS(call.values.heap().spend_bytes(call.text().size()));
    BALLAST_TRY(const Window part, window(call, bound));
    const bool from_right = call.name == "rfind" || call.name == "rindex";
    const std::size_t at = !part.valid  ? std::string_view::npos
                           : from_right ? part.text.rfind(needle)
                                        : part.text.find(needle);
    if (at != std::string_view::npos) {
        const auto before = static_cast<std::int64_t>(count_code_points(part.text.substr(0, at)));
        return Value::integer(part.skipped + before);
    }
    if (call.name == "index" || call.name == "rindex") {
        return template_error("substring not found");
    }
    return Value::integer(-1);
}

Result<Value> method_count(const MethodCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"sub", "start", "end"}, 1));
    BALLAST_TRY(const auto needle, bound.text(0, ""));
    BALLAST_TRY_STATUS(call.values.heap().spend_bytes(call.text().size()));
    BALLAST_TRY(const Window part, window(call, bound));
    if (!part.valid) {
        return Value::integer(0);
    }
    if (needle.empty()) {
        return Value::integer(static_cast<Integer>(count_code_points(part.text)) + 1);
    }
    std::int64_t count = 0;
    for (std::size_t at = part.text.find(needle); at != std::string_view::npos;
         at = part.text.find(needle, at + needle.size())) {
        ++count;
    }
    return Value::integer(count);
}

Result<Value> method_replace(const MethodCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"old", "new", "count"}, 2));
    BALLAST_TRY(const auto from, bound.text(0, ""));
    BALLAST_TRY(const auto to, bound.text(1, ""));
    BALLAST_TRY(const std::int64_t count, bound.integer(2, -1));
    return replace_text(call.values, call.text(), from, to, count);
}

Result<Value> method_remove_affix(const MethodCall& call) {
    BALLAST_TRY(const auto bound, BoundArguments::bind(call.name, call.arguments, {"affix"}, 1));
    BALLAST_TRY(const auto affix, bound.text(0, ""));
    std::string_view text = call.text();
    if (call.name == "removeprefix" && text.starts_with(affix)) {
        text.remove_prefix(affix.size());
    } else if (call.name == "removesuffix" && text.ends_with(affix)) {
        text.remove_suffix(affix.size());
    }
    return call.values.string(text);
}

Result<Value> method_join(const MethodCall& call) {
    BALLAST_TRY(const auto bound, BoundArguments::bind(call.name, call.arguments, {"iterable"}, 1));
    BALLAST_TRY(const auto items, collect(call.values, bound.value(0)));
    for (const Value& item : items) {
        if (!item.is(Kind::kString)) {
            return template_error("join() needs strings, found " + type_name(item));
        }
    }
    BALLAST_TRY(const Value list, call.values.list(items));
    return join_items(call.values, list, call.text());
}

Result<Value> method_justify(const MethodCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"width", "fillchar"}, 1));
    BALLAST_TRY(const std::int64_t width, bound.integer(0, 0));
    BALLAST_TRY(std::string fill, bound.text(1, " "));
    const auto size = static_cast<std::int64_t>(call.self.string().code_points);
    const std::int64_t missing = std::max<std::int64_t>(0, width - size);
    std::string text = call.text();
    std::string sign;
    std::int64_t left = call.name == "ljust" ? 0 : missing;
    if (call.name == "zfill") {
        fill = "0";
        if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
            sign = text.substr(0, 1);
            text.erase(0, 1);
        }
    } else if (call.name == "center") {
        // CPython gives the odd one to the left only if the width is odd.
        left = missing / 2 + (missing & width & 1);
    }
    if (count_code_points(fill) != 1) {
        return template_error("The fill character must be exactly one character long");
    }
    BALLAST_TRY_STATUS(call.values.heap().ensure(static_cast<std::uint64_t>(missing), fill.size()));
    std::string out = sign;
    for (std::int64_t i = 0; i < missing; ++i) {
        if (i == left) {
            out += text;
        }
        out += fill;
    }
    return call.values.string(left >= missing ? out + text : std::move(out));
}

Result<Value> method_classify(const MethodCall& call) {
    BALLAST_TRY_STATUS(call.values.heap().spend(call.text().size() / 4));
    const std::string& text = call.text();
    bool all = !text.empty() || call.name == "isascii" || call.name == "isprintable";
    bool cased = false;
    for (std::size_t at = 0; at < text.size() && all; at += code_point_bytes(text, at)) {
        const char32_t c = code_point_at(text, at);
        const bool digit = c >= '0' && c <= '9';
        cased = cased || is_upper(c) || is_lower(c);
        if (call.name == "isdigit" || call.name == "isnumeric" || call.name == "isdecimal") {
            all = digit;
        } else if (call.name == "isalpha") {
            all = is_letter(c);
        } else if (call.name == "isalnum") {
            all = is_letter(c) || digit;
        } else if (call.name == "isspace") {
            all = is_space(c);
        } else if (call.name == "isascii") {
            all = c < 0x80;
        } else if (call.name == "isupper") {
            all = !is_lower(c);
        } else {
            all = !is_upper(c);
        }
    }
    if (call.name == "isupper" || call.name == "islower") {
        all = all && cased;
    }
    return Value::boolean(all);
}

Result<Value> method_format(const MethodCall& call) {
    return brace_format(call.values, call.text(), call.arguments);
}

constexpr MethodEntry kStringMethods[] = {{"capitalize", method_case},
                                          {"casefold", method_case},
                                          {"center", method_justify},
                                          {"count", method_count},
                                          {"encode", method_unsupported},
                                          {"endswith", method_affix},
                                          {"expandtabs", method_unsupported},
                                          {"find", method_find},
                                          {"format", method_format},
                                          {"format_map", method_unsupported},
                                          {"index", method_find},
                                          {"isalnum", method_classify},
                                          {"isalpha", method_classify},
                                          {"isascii", method_classify},
                                          {"isdecimal", method_classify},
                                          {"isdigit", method_classify},
                                          {"isidentifier", method_unsupported},
                                          {"islower", method_classify},
                                          {"isnumeric", method_classify},
                                          {"isprintable", method_unsupported},
                                          {"isspace", method_classify},
                                          {"istitle", method_unsupported},
                                          {"isupper", method_classify},
                                          {"join", method_join},
                                          {"ljust", method_justify},
                                          {"lower", method_case},
                                          {"lstrip", method_strip},
                                          {"maketrans", method_unsupported},
                                          {"partition", method_partition},
                                          {"removeprefix", method_remove_affix},
                                          {"removesuffix", method_remove_affix},
                                          {"replace", method_replace},
                                          {"rfind", method_find},
                                          {"rindex", method_find},
                                          {"rjust", method_justify},
                                          {"rpartition", method_partition},
                                          {"rsplit", method_split},
                                          {"rstrip", method_strip},
                                          {"split", method_split},
                                          {"splitlines", method_splitlines},
                                          {"startswith", method_affix},
                                          {"strip", method_strip},
                                          {"swapcase", method_case},
                                          {"title", method_case},
                                          {"translate", method_unsupported},
                                          {"upper", method_case},
                                          {"zfill", method_justify}};

}  // namespace

const MethodEntry* find_string_method(std::string_view name) {
    return find_in(kStringMethods, name);
}

}  // namespace ballast::chat
