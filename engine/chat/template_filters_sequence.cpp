// SPDX-License-Identifier: MIT
// Filters of sequences and mappings. Those that Jinja makes generators give iterators here too,
// since templates can tell the difference; they are only filled at once.
#include <algorithm>
#include <optional>

#include "engine/chat/template_arguments.h"
#include "engine/chat/template_filters.h"
#include "engine/chat/template_methods.h"
#include "engine/chat/template_operators.h"
#include "engine/chat/template_print.h"
#include "engine/chat/template_tests.h"
#include "engine/chat/template_text.h"

namespace ballast::chat {

namespace {

/// "a.b.0" as the subscripts it stands for; an integer is one subscript; none is no step at all.
class AttributePath {
  public:
    static Result<AttributePath> parse(const Values& values, const Value& attribute) {
        AttributePath path;
        if (attribute.is(Kind::kUndefined) || attribute.is(Kind::kNone)) {
            return path;
        }
        if (!attribute.is(Kind::kString)) {
            path.steps_.push_back(attribute);
            return path;
        }
        BALLAST_TRY_STATUS(values.heap().spend(attribute.text().size()));
        for (const std::string_view part : split_text(attribute.text(), ".", -1, false)) {
            const bool digits = !part.empty() && part.size() < 10 &&
                                part.find_first_not_of("0123456789") == std::string_view::npos;
            BALLAST_TRY(auto step, values.string(part));
            path.steps_.push_back(digits ? Value::integer(std::stol(std::string(part))) : step);
        }
        return path;
    }

    Result<Value> follow(const Values& values, Value item) const {
        for (const Value& step : steps_) {
            BALLAST_TRY(item, get_item(values, item, step));
        }
        return item;
    }

  private:
    std::vector<Value> steps_;
};

/// What sorting and comparing go by: the attribute, in lower case unless case matters.
struct KeyRule {
    AttributePath path;
    bool case_sensitive = false;

    Result<Value> key(const Values& values, const Value& item) const {
        BALLAST_TRY(auto found, path.follow(values, item));
        if (case_sensitive || !found.is(Kind::kString)) {
            return found;
        }
        return values.string(lower_text(found.text()));
    }
};

Result<KeyRule> key_rule(const Values& values, const Value& attribute, bool case_sensitive) {
    KeyRule rule;
    BALLAST_TRY(rule.path, AttributePath::parse(values, attribute));
    rule.case_sensitive = case_sensitive;
    return rule;
}

/// [key, item] pairs, sorted by key.
Result<std::vector<Value>> sorted_pairs(const Values& values,
                                        const Value& iterable,
                                        const KeyRule& rule,
                                        bool reverse) {
    BALLAST_TRY(auto items, collect(values, iterable));
    for (Value& item : items) {
        BALLAST_TRY(auto key, rule.key(values, item));
        BALLAST_TRY(item, values.pair(std::move(key), item));
    }
    BALLAST_TRY_STATUS(sort_values(values, items, reverse));
    return items;
}

Result<Value> filter_length(const FilterCall& call) {
    BALLAST_TRY(const std::int64_t n, length(call.values, call.value));
    return Value::integer(n);
}

Result<Value> filter_first(const FilterCall& call) {
    BALLAST_TRY(auto cursor, Cursor::over(call.values, call.value));
    BALLAST_TRY(auto item, cursor.next());
    return item ? *std::move(item) : call.values.undefined("No first item, sequence was empty.");
}

Result<Value> filter_last(const FilterCall& call) {
    if (call.value.is(Kind::kIterator)) {
        return template_error("'" + call.value.iterator().type_name + "' object is not reversible");
    }
    BALLAST_TRY(const auto items, collect(call.values, call.value));
    return items.empty() ? call.values.undefined("No last item, sequence was empty.")
                         : items.back();
}

Result<Value> filter_list(const FilterCall& call) {
    BALLAST_TRY(auto items, collect(call.values, call.value));
    return call.values.list(std::move(items));
}

Result<Value> filter_join(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"d", "attribute"}));
    std::string separator;
    if (bound.given(0)) {
        BALLAST_TRY(separator, to_str(call.values, bound.value(0)));
    }
    if (!bound.given(1)) {
        return join_items(call.values, call.value, separator);
    }
    BALLAST_TRY(const auto path, AttributePath::parse(call.values, bound.value(1)));
    BALLAST_TRY(auto items, collect(call.values, call.value));
    for (Value& item : items) {
        BALLAST_TRY(item, path.follow(call.values, item));
    }
    BALLAST_TRY(const auto list, call.values.list(std::move(items)));
    return join_items(call.values, list, separator);
}

Result<Value> filter_reverse(const FilterCall& call) {
    BALLAST_TRY(auto items, collect(call.values, call.value));
    std::reverse(items.begin(), items.end());
    if (!call.value.is(Kind::kString)) {
        return call.values.iterator(std::move(items), "list_reverseiterator");
    }
    BALLAST_TRY(const auto list, call.values.list(std::move(items)));
    return join_items(call.values, list, "");
}

Result<Value> filter_items(const FilterCall& call) {
    if (call.value.is(Kind::kUndefined)) {
        return call.values.iterator({});
    }
    if (!call.value.is(Kind::kDict)) {
        return template_error("Can only get item pairs from a mapping.");
    }
    BALLAST_TRY(const auto view, call_method(call.values, call.value, "items", {}));
    BALLAST_TRY(auto items, collect(call.values, view));
    return call.values.iterator(std::move(items));
}

Result<Value> filter_dictsort(const FilterCall& call) {
    BALLAST_TRY(
        const auto bound,
        BoundArguments::bind(call.name, call.arguments, {"case_sensitive", "by", "reverse"}));
    BALLAST_TRY(const auto by, bound.text(1, "key"));
    if (by != "key" && by != "value") {
        return template_error("You can only sort by either \"key\" or \"value\"");
    }
    if (!call.value.is(Kind::kDict)) {
        return template_error("dictsort needs a mapping, not " + type_name(call.value));
    }
    BALLAST_TRY(const auto rule,
                key_rule(call.values, Value::integer(by == "key" ? 0 : 1), bound.truth(0, false)));
    BALLAST_TRY(const auto view, call_method(call.values, call.value, "items", {}));
    BALLAST_TRY(auto pairs, sorted_pairs(call.values, view, rule, bound.truth(2, false)));
    for (Value& pair : pairs) {
        pair = Value(pair.items()[1]);
    }
    return call.values.list(std::move(pairs));
}

Result<Value> filter_sort(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(
                    call.name, call.arguments, {"reverse", "case_sensitive", "attribute"}));
    BALLAST_TRY(const auto rule, key_rule(call.values, bound.value(2), bound.truth(1, false)));
    BALLAST_TRY(auto pairs, sorted_pairs(call.values, call.value, rule, bound.truth(0, false)));
    for (Value& pair : pairs) {
        pair = Value(pair.items()[1]);
    }
    return call.values.list(std::move(pairs));
}

Result<Value> filter_unique(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"case_sensitive", "attribute"}));
    BALLAST_TRY(const auto rule, key_rule(call.values, bound.value(1), bound.truth(0, false)));
    BALLAST_TRY(const auto items, collect(call.values, call.value));
    Entries seen;
    std::vector<Value> out;
    for (const Value& item : items) {
        BALLAST_TRY(auto key, rule.key(call.values, item));
        BALLAST_TRY_STATUS(check_hashable(key));
        BALLAST_TRY(const auto at, find_key(call.heap(), seen, key));
        if (!at) {
            seen.emplace_back(std::move(key), Value());
            out.push_back(item);
        }
    }
    return call.values.iterator(std::move(out));
}

Result<Value> filter_extreme(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"case_sensitive", "attribute"}));
    BALLAST_TRY(const auto rule, key_rule(call.values, bound.value(1), bound.truth(0, false)));
    BALLAST_TRY(auto cursor, Cursor::over(call.values, call.value));
    const Operator op = call.name == "min" ? Operator::kLess : Operator::kGreater;
    std::optional<Value> best;
    Value best_key;
    while (true) {
        BALLAST_TRY(auto item, cursor.next());
        if (!item) {
            break;
        }
        BALLAST_TRY(auto key, rule.key(call.values, *item));
        bool better = !best;
        if (best) {
            BALLAST_TRY(better, compare(call.values, op, key, best_key));
        }
        if (better) {
            best = *std::move(item);
            best_key = std::move(key);
        }
    }
    return best ? *std::move(best)
                : call.values.undefined("No aggregated item, sequence was empty.");
}

Result<Value> filter_sum(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"attribute", "start"}));
    BALLAST_TRY(const auto path, AttributePath::parse(call.values, bound.value(0)));
    BALLAST_TRY(auto cursor, Cursor::over(call.values, call.value));
    Value total = bound.given(1) ? bound.value(1) : Value::integer(0);
    if (total.is(Kind::kString)) {
        return template_error("sum() can't sum strings");
    }
    while (true) {
        BALLAST_TRY(auto item, cursor.next());
        if (!item) {
            return total;
        }
        BALLAST_TRY(const auto addend, path.follow(call.values, *std::move(item)));
        BALLAST_TRY(total, arithmetic(call.values, Operator::kAdd, total, addend));
    }
}

Result<Value> filter_map(const FilterCall& call) {
    const Arguments& arguments = call.arguments;
    // Jinja looks at the items only if there are any, so that None passes too.
    if (!truthy(call.value)) {
        return call.values.iterator({});
    }
    BALLAST_TRY(auto items, collect(call.values, call.value));
    if (arguments.positional.empty()) {
        BALLAST_TRY(const auto bound,
                    BoundArguments::bind(call.name, arguments, {"attribute", "default"}, 1));
        BALLAST_TRY(const auto path, AttributePath::parse(call.values, bound.value(0)));
        for (Value& item : items) {
            BALLAST_TRY(item, path.follow(call.values, item));
            if (item.is(Kind::kUndefined) && bound.given(1) && !bound.value(1).is(Kind::kNone)) {
                item = bound.value(1);
            }
        }
        return call.values.iterator(std::move(items));
    }
    if (!arguments.positional[0].is(Kind::kString)) {
        return template_error("map needs the name of a filter");
    }
    const std::string& name = arguments.positional[0].text();
    // A filter that maps filters by name could nest without end.
    if (name == "map") {
        return template_error("map cannot apply itself");
    }
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    for (Value& item : items) {
        BALLAST_TRY(item, apply_filter(call.values, name, item, rest));
    }
    return call.values.iterator(std::move(items));
}

/// select, reject, selectattr and rejectattr.
Result<Value> filter_select(const FilterCall& call) {
    const bool by_attribute = call.name.ends_with("attr");
    const bool wanted = call.name.starts_with("select");
    if (!truthy(call.value)) {
        return call.values.iterator({});
    }
    Arguments rest = call.arguments;
    AttributePath path;
    if (by_attribute) {
        if (rest.positional.empty()) {
            return template_error("Missing parameter for attribute name");
        }
        BALLAST_TRY(path, AttributePath::parse(call.values, rest.positional[0]));
        rest.positional.erase(rest.positional.begin());
    }
    std::optional<std::string> test;
    if (!rest.positional.empty()) {
        if (!rest.positional[0].is(Kind::kString)) {
            return template_error(std::string(call.name) + " needs the name of a test");
        }
        test = rest.positional[0].text();
        rest.positional.erase(rest.positional.begin());
    }
    BALLAST_TRY(const auto items, collect(call.values, call.value));
    std::vector<Value> out;
    for (const Value& item : items) {
        BALLAST_TRY(const auto subject, path.follow(call.values, item));
        bool passed = truthy(subject);
        if (test) {
            BALLAST_TRY(passed, apply_test(call.values, *test, subject, rest));
        }
        if (passed == wanted) {
            out.push_back(item);
        }
    }
    return call.values.iterator(std::move(out));
}

Result<Value> filter_batch(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"linecount", "fill_with"}, 1));
    BALLAST_TRY(const std::int64_t size, bound.integer(0, 0));
    if (size <= 0) {
        return template_error("batch() needs a positive size");
    }
    BALLAST_TRY(const auto items, collect(call.values, call.value));
    const auto step = static_cast<std::size_t>(size);
    std::vector<Value> out;
    for (std::size_t at = 0; at < items.size(); at += std::min(step, items.size() - at)) {
        const std::size_t end = at + std::min(step, items.size() - at);
        std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(at),
                                items.begin() + static_cast<std::ptrdiff_t>(end));
        if (bound.given(1) && !bound.value(1).is(Kind::kNone)) {
            BALLAST_TRY_STATUS(call.heap().ensure(step, sizeof(Value)));
            part.resize(step, bound.value(1));
        }
        BALLAST_TRY(auto list, call.values.list(std::move(part)));
        out.push_back(std::move(list));
    }
    return call.values.iterator(std::move(out));
}

Result<Value> filter_slice(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"slices", "fill_with"}, 1));
    BALLAST_TRY(const std::int64_t slices, bound.integer(0, 0));
    if (slices <= 0) {
        return template_error("slice() needs a positive count");
    }
    const auto count = static_cast<std::size_t>(slices);
    BALLAST_TRY_STATUS(call.heap().ensure(count, sizeof(SequenceObject) + sizeof(Value)));
    BALLAST_TRY(const auto items, collect(call.values, call.value));
    const std::size_t each = items.size() / count;
    const std::size_t surplus = items.size() % count;
    std::vector<Value> out;
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t end = at + each + (i < surplus ? 1 : 0);
        std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(at),
                                items.begin() + static_cast<std::ptrdiff_t>(end));
        if (bound.given(1) && !bound.value(1).is(Kind::kNone) && i >= surplus && surplus != 0) {
            part.push_back(bound.value(1));
        }
        at = end;
        BALLAST_TRY(auto list, call.values.list(std::move(part)));
        out.push_back(std::move(list));
    }
    return call.values.iterator(std::move(out));
}

Result<Value> filter_groupby(const FilterCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(
                    call.name, call.arguments, {"attribute", "default", "case_sensitive"}, 1));
    BALLAST_TRY(const auto path, AttributePath::parse(call.values, bound.value(0)));
    const KeyRule rule{{}, bound.truth(2, false)};
    BALLAST_TRY(auto items, collect(call.values, call.value));
    // Triples: the key to group by, the item, the key as it was written.
    for (Value& item : items) {
        BALLAST_TRY(auto written, path.follow(call.values, item));
        if (written.is(Kind::kUndefined) && bound.given(1)) {
            written = bound.value(1);
        }
        BALLAST_TRY(auto key, rule.key(call.values, written));
        BALLAST_TRY(item, call.values.tuple({std::move(key), item, std::move(written)}));
    }
    BALLAST_TRY_STATUS(sort_values(call.values, items, false));
    std::vector<Value> out;
    for (std::size_t at = 0; at < items.size();) {
        std::vector<Value> group;
        const std::size_t first = at;
        while (at < items.size()) {
            BALLAST_TRY(const bool same,
                        equal(call.heap(), items[first].items()[0], items[at].items()[0]));
            if (!same) {
                break;
            }
            group.push_back(items[at++].items()[1]);
        }
        BALLAST_TRY(auto list, call.values.list(std::move(group)));
        BALLAST_TRY(auto pair, call.values.pair(items[first].items()[2], std::move(list)));
        out.push_back(std::move(pair));
    }
    return call.values.list(std::move(out));
}

Result<Value> filter_attr(const FilterCall& call) {
    BALLAST_TRY(const auto bound, BoundArguments::bind(call.name, call.arguments, {"name"}, 1));
    BALLAST_TRY(const auto name, bound.text(0, ""));
    // Only true attributes, not items.
    if (call.value.is(Kind::kDict) && method_access(call.value, name) == MethodAccess::kNone) {
        return call.values.undefined("'dict object' has no attribute '" + name.substr(0, 80) + "'");
    }
    return get_attribute(call.values, call.value, name);
}

struct FilterEntry {
    std::string_view name;
    Filter filter;
};

constexpr FilterEntry kFilters[] = {
    {"attr", filter_attr},         {"batch", filter_batch},     {"count", filter_length},
    {"dictsort", filter_dictsort}, {"first", filter_first},     {"groupby", filter_groupby},
    {"items", filter_items},       {"join", filter_join},       {"last", filter_last},
    {"length", filter_length},     {"list", filter_list},       {"map", filter_map},
    {"max", filter_extreme},       {"min", filter_extreme},     {"reject", filter_select},
    {"rejectattr", filter_select}, {"reverse", filter_reverse}, {"select", filter_select},
    {"selectattr", filter_select}, {"slice", filter_slice},     {"sort", filter_sort},
    {"sum", filter_sum},           {"unique", filter_unique},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) {
    for (const FilterEntry& entry : kFilters) {
        if (entry.name == name) {
            return entry.filter;
        }
    }
    return nullptr;
}

}  // namespace ballast::chat
