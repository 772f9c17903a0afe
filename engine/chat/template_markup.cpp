// SPDX-License-Identifier: MIT
// The part of markupsafe.Markup that templates without autoescaping can notice.
#include "engine/chat/template_markup.h"

#include <string>
#include <utility>
#include <vector>

#include "engine/chat/template_operators.h"

namespace ballast::chat {

bool is_markup(const Value& value) {
    return value.is(Kind::kString) && value.string().markup;
}

Result<Value> as_markup(const Values& values, const Value& value) {
    if (value.is(Kind::kString)) {
        return values.markup(value.text());
    }
    if (!value.is_sequence()) {
        return value;
    }
    std::vector<Value> items;
    items.reserve(value.items().size());
    for (const Value& item : value.items()) {
        if (item.is(Kind::kString)) {
            BALLAST_TRY(auto marked, values.markup(item.text()));
            items.push_back(std::move(marked));
        } else {
            items.push_back(item);
        }
    }
    return value.is(Kind::kList) ? values.list(std::move(items)) : values.tuple(std::move(items));
}

Result<Value> escaped(const Values& values, const Value& value) {
    return value.is(Kind::kString) && !is_markup(value) ? escape_text(values, value.text())
                                                        : Result<Value>(value);
}

Result<Value> escape_text(const Values& values, std::string_view text) {
    // The longest replacement has five characters.
    BALLAST_TRY_STATUS(values.heap().ensure(text.size(), 5));
    std::string out;
    out.reserve(text.size());
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '\'':
                out += "&#39;";
                break;
            case '"':
                out += "&#34;";
                break;
            default:
                out += c;
        }
    }
    return values.markup(std::move(out));
}

Result<Arguments> escaped_arguments(const Values& values,
                                    std::string_view method,
                                    const Arguments& arguments) {
    Arguments out = arguments;
    if (method == "replace" && out.positional.size() > 1) {
        BALLAST_TRY(out.positional[1], escaped(values, out.positional[1]));
    } else if (method == "format") {
        for (Value& value : out.positional) {
            BALLAST_TRY(value, escaped(values, value));
        }
        for (auto& [name, value] : out.named) {
            BALLAST_TRY(value, escaped(values, value));
        }
    } else if (method == "join" && !out.positional.empty()) {
        BALLAST_TRY(auto items, collect(values, out.positional[0]));
        for (Value& item : items) {
            BALLAST_TRY(item, escaped(values, item));
        }
        BALLAST_TRY(out.positional[0], values.list(std::move(items)));
    }
    return out;
}

}  // namespace ballast::chat
