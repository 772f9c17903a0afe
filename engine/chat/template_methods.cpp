// SPDX-License-Identifier: MIT
// Methods of lists, tuples and dicts, and the dispatch of all.
#include "engine/chat/template_methods.h"

#include <algorithm>
#include <limits>
#include <string>

#include "engine/chat/template_arguments.h"
#include "engine/chat/template_markup.h"
#include "engine/chat/template_method_table.h"
#include "engine/chat/template_operators.h"
#include "engine/chat/template_print.h"
#include "engine/chat/template_text.h"

namespace ballast::chat {

namespace {

Result<Value> method_get(const MethodCall& call) {
    BALLAST_TRY(const auto bound,
                BoundArguments::bind(call.name, call.arguments, {"key", "default"}, 1));
    BALLAST_TRY_STATUS(check_hashable(bound.value(0)));
    const Entries& entries = call.self.dict().entries;
    BALLAST_TRY(const auto at, find_key(call.values.heap(), entries, bound.value(0)));
    if (at) {
        return entries[*at].second;
    }
    return bound.given(1) ? bound.value(1) : Value::none();
}

Result<Value> method_view(const MethodCall& call) {
    BALLAST_TRY_STATUS(expect_no_arguments(call.name, call.arguments));
    auto view = std::make_shared<ViewObject>();
    view->part = call.name == "items"  ? ViewPart::kItems
                 : call.name == "keys" ? ViewPart::kKeys
                                       : ViewPart::kValues;
    view->dict = call.self.shared_dict();
    return Value::of(std::shared_ptr<const ViewObject>(std::move(view)));
}

Result<Value> method_copy(const MethodCall& call) {
    // Nothing can be changed, so a copy is the value itself.
    return call.self;
}

Result<Value> method_sequence_find(const MethodCall& call) {
    BALLAST_TRY(const auto bound, BoundArguments::bind(call.name, call.arguments, {"value"}, 1));
    std::int64_t count = 0;
    const auto& items = call.self.items();
    for (std::size_t i = 0; i < items.size(); ++i) {
        BALLAST_TRY(const bool same, equal(call.values.heap(), items[i], bound.value(0)));
        if (same && call.name == "index") {
            return Value::integer(static_cast<Integer>(i));
        }
        count += same ? 1 : 0;
    }
    if (call.name == "index") {
        return template_error("the value is not in the list");
    }
    return Value::integer(count);
}

constexpr MethodEntry kListMethods[] = {{"append", nullptr},
                                        {"clear", nullptr},
                                        {"copy", method_copy},
                                        {"count", method_sequence_find},
                                        {"extend", nullptr},
                                        {"index", method_sequence_find},
                                        {"insert", nullptr},
                                        {"pop", nullptr},
                                        {"remove", nullptr},
                                        {"reverse", nullptr},
                                        {"sort", nullptr}};
constexpr MethodEntry kTupleMethods[] = {{"count", method_sequence_find},
                                         {"index", method_sequence_find}};
constexpr MethodEntry kDictMethods[] = {{"clear", nullptr},
                                        {"copy", method_copy},
                                        {"fromkeys", method_unsupported},
                                        {"get", method_get},
                                        {"items", method_view},
                                        {"keys", method_view},
                                        {"pop", nullptr},
                                        {"popitem", nullptr},
                                        {"setdefault", nullptr},
                                        {"update", nullptr},
                                        {"values", method_view}};

const MethodEntry* find_method(const Value& object, std::string_view name) {
    switch (object.kind()) {
        case Kind::kString:
            return find_string_method(name);
        case Kind::kList:
            return find_in(kListMethods, name);
        case Kind::kTuple:
            return find_in(kTupleMethods, name);
        case Kind::kDict:
            return find_in(kDictMethods, name);
        default:
            return nullptr;
    }
}

}  // namespace

Result<Value> method_unsupported(const MethodCall& call) {
    return template_error("the method '" + std::string(call.name) + "' of '" +
                          type_name(call.self) + "' is not supported in chat templates");
}

MethodAccess method_access(const Value& object, std::string_view name) {
    if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {
        return MethodAccess::kUnsafe;
    }
    const MethodEntry* entry = find_method(object, name);
    if (entry == nullptr) {
        return MethodAccess::kNone;
    }
    return entry->method == nullptr ? MethodAccess::kUnsafe : MethodAccess::kAllowed;
}

Result<Value> call_method(const Values& values,
                          const Value& self,
                          std::string_view name,
                          const Arguments& arguments) {
    const MethodEntry* entry = find_method(self, name);
    if (entry == nullptr || entry->method == nullptr) {
        return template_error("'" + type_name(self) + "' has no method '" + std::string(name) +
                              "'");
    }
    if (!is_markup(self)) {
        return entry->method(MethodCall{values, self, name, arguments});
    }
    BALLAST_TRY(const auto safe_arguments, escaped_arguments(values, name, arguments));
    BALLAST_TRY(const auto result, entry->method(MethodCall{values, self, name, safe_arguments}));
    return as_markup(values, result);
}

Result<Value> replace_text(const Values& values,
                           std::string_view text,
                           std::string_view from,
                           std::string_view to,
                           std::int64_t count) {
    std::uint64_t left =
        count < 0 ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(count);
    BALLAST_TRY_STATUS(values.heap().spend_bytes(text.size()));
    std::string out;
    std::size_t at = 0;
    while (left > 0) {
        const std::size_t found = text.find(from, at);
        if (found == std::string_view::npos) {
            break;
        }
        BALLAST_TRY_STATUS(values.heap().ensure(out.size() + to.size() + text.size()));
        out.append(text, at, found - at);
        out += to;
        at = found + from.size();
        --left;
        if (!from.empty()) {
            continue;
        }
        // An empty pattern matches before every character and at the end.
        if (at >= text.size()) {
            break;
        }
        const std::size_t n = code_point_bytes(text, at);
        out.append(text, at, n);
        at += n;
    }
    out.append(text, std::min(at, text.size()));
    return values.string(std::move(out));
}

Result<Value> join_items(const Values& values, const Value& iterable, std::string_view separator) {
    BALLAST_TRY(auto cursor, Cursor::over(values, iterable));
    std::string out;
    bool first = true;
    while (true) {
        BALLAST_TRY(const auto item, cursor.next());
        if (!item) {
            return values.string(std::move(out));
        }
        if (!first) {
            BALLAST_TRY_STATUS(values.heap().spend_bytes(separator.size()));
            BALLAST_TRY_STATUS(values.heap().ensure(out.size() + separator.size()));
            out += separator;
        }
        first = false;
        BALLAST_TRY_STATUS(append_str(values, out, *item));
    }
}

}  // namespace ballast::chat
