// SPDX-License-Identifier: MIT
// A table of names; tests with one argument are comparisons or `in`.
#include "engine/chat/template_tests.h"

#include <algorithm>
#include <optional>

#include "engine/chat/template_arguments.h"
#include "engine/chat/template_filters.h"
#include "engine/chat/template_markup.h"
#include "engine/chat/template_operators.h"
#include "engine/chat/template_print.h"
#include "engine/chat/template_text.h"

namespace ballast::chat {

namespace {

using Predicate = bool (*)(const Value&);

struct PredicateEntry {
    std::string_view name;
    Predicate predicate;
};

bool is_iterable(const Value& v) {
    return !(v.is(Kind::kNone) || v.is_number() || v.is(Kind::kNamespace) || v.is(Kind::kCallable));
}

constexpr PredicateEntry kPredicates[] = {
    {"boolean", [](const Value& v) { return v.is(Kind::kBool); }},
    {"callable", [](const Value& v) { return v.is(Kind::kCallable) || v.is(Kind::kUndefined); }},
    {"defined", [](const Value& v) { return !v.is(Kind::kUndefined); }},
    {"escaped", is_markup},
    {"false", [](const Value& v) { return v.is(Kind::kBool) && !v.as_bool(); }},
    {"float", [](const Value& v) { return v.is(Kind::kFloat); }},
    {"integer", [](const Value& v) { return v.is(Kind::kInteger); }},
    {"iterable", is_iterable},
    {"mapping", [](const Value& v) { return v.is(Kind::kDict); }},
    {"none", [](const Value& v) { return v.is(Kind::kNone); }},
    {"number", [](const Value& v) { return v.is_number(); }},
    {"sequence",
     [](const Value& v) {
         return v.is(Kind::kString) || v.is_sequence() || v.is(Kind::kDict) || v.is(Kind::kRange) ||
                v.is(Kind::kUndefined);
     }},
    {"string", [](const Value& v) { return v.is(Kind::kString); }},
    {"true", [](const Value& v) { return v.is(Kind::kBool) && v.as_bool(); }},
    {"undefined", [](const Value& v) { return v.is(Kind::kUndefined); }},
};

struct ComparisonEntry {
    std::string_view name;
    Operator op;
};

constexpr ComparisonEntry kComparisons[] = {
    {"==", Operator::kEqual},
    {"eq", Operator::kEqual},
    {"equalto", Operator::kEqual},
    {"!=", Operator::kNotEqual},
    {"ne", Operator::kNotEqual},
    {">", Operator::kGreater},
    {"gt", Operator::kGreater},
    {"greaterthan", Operator::kGreater},
    {">=", Operator::kGreaterEqual},
    {"ge", Operator::kGreaterEqual},
    {"<", Operator::kLess},
    {"lt", Operator::kLess},
    {"lessthan", Operator::kLess},
    {"<=", Operator::kLessEqual},
    {"le", Operator::kLessEqual},
    {"in", Operator::kIn},
};

constexpr std::string_view kOthers[] = {
    "odd", "even", "divisibleby", "sameas", "lower", "upper", "filter", "test"};

template <class Entry, std::size_t N>
const Entry* find_entry(const Entry (&table)[N], std::string_view name) {
    const auto* entry =
        std::find_if(table, table + N, [name](const Entry& e) { return e.name == name; });
    return entry == table + N ? nullptr : entry;
}

Result<bool> remainder_is(const Values& values, const Value& value, Value divisor, Integer wanted) {
    BALLAST_TRY(const auto remainder, arithmetic(values, Operator::kModulo, value, divisor));
    return equal(values.heap(), remainder, Value::integer(wanted));
}

bool same_object(const Value& a, const Value& b) {
    if (a.kind() != b.kind()) {
        return false;
    }
    switch (a.kind()) {
        case Kind::kNone:
            return true;
        case Kind::kBool:
            return a.as_bool() == b.as_bool();
        case Kind::kInteger:
            return a.as_integer() == b.as_integer();
        case Kind::kString:
            return &a.string() == &b.string();
        case Kind::kList:
        case Kind::kTuple:
            return &a.items() == &b.items();
        case Kind::kDict:
            return &a.dict() == &b.dict();
        case Kind::kNamespace:
            return a.name_space() == b.name_space();
        default:
            return false;
    }
}

Result<bool> case_is(const Values& values, const Value& value, bool upper) {
    BALLAST_TRY(const auto text, to_str(values, value));
    bool cased = false;
    for (std::size_t at = 0; at < text.size(); at += code_point_bytes(text, at)) {
        const char32_t c = code_point_at(text, at);
        if (upper ? is_lower(c) : is_upper(c)) {
            return false;
        }
        cased = cased || is_upper(c) || is_lower(c);
    }
    return cased;
}

}  // namespace

bool has_test(std::string_view name) {
    return find_entry(kPredicates, name) != nullptr || find_entry(kComparisons, name) != nullptr ||
           std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
}

Result<bool> apply_test(const Values& values,
                        std::string_view name,
                        const Value& value,
                        const Arguments& arguments) {
    BALLAST_TRY_STATUS(values.heap().spend(1));
    if (const auto* entry = find_entry(kPredicates, name)) {
        BALLAST_TRY_STATUS(expect_no_arguments(name, arguments));
        return entry->predicate(value);
    }
    if (!has_test(name)) {
        return template_error("No test named '" + std::string(name.substr(0, 80)) + "'.");
    }
    const bool unary = name == "odd" || name == "even" || name == "lower" || name == "upper" ||
                       name == "filter" || name == "test";
    if (unary) {
        BALLAST_TRY_STATUS(expect_no_arguments(name, arguments));
        if (name == "odd" || name == "even") {
            return remainder_is(values, value, Value::integer(2), name == "odd" ? 1 : 0);
        }
        if (name == "filter" || name == "test") {
            if (!value.is(Kind::kString)) {
                return false;
            }
            return name == "filter" ? has_filter(value.text()) : has_test(value.text());
        }
        return case_is(values, value, name == "upper");
    }
    BALLAST_TRY(const auto bound, BoundArguments::bind(name, arguments, {"other"}, 1));
    const Value other = bound.value(0);
    if (const auto* entry = find_entry(kComparisons, name)) {
        return compare(values, entry->op, value, other);
    }
    if (name == "sameas") {
        return same_object(value, other);
    }
    return remainder_is(values, value, other, 0);
}

}  // namespace ballast::chat
