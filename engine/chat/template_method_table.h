// SPDX-License-Identifier: MIT
// How a method is found and called: tables of names and functions, one for each type.
#pragma once

#include <string>
#include <string_view>

#include "engine/chat/template_callable.h"

namespace ballast::chat {

struct MethodCall {
    const Values& values;
    const Value& self;
    std::string_view name;
    const Arguments& arguments;

    /// Of a string's method.
    const std::string& text() const { return self.text(); }
};

using Method = Result<Value> (*)(const MethodCall&);

/// A null method is one the sandbox refuses.
struct MethodEntry {
    std::string_view name;
    Method method;
};

template <std::size_t N>
const MethodEntry* find_in(const MethodEntry (&table)[N], std::string_view name) {
    for (const MethodEntry& entry : table) {
        if (entry.name == name) {
            return &entry;
        }
    }
    return nullptr;
}

/// Null if strings have no method of that name. In template_string_methods.cpp.
const MethodEntry* find_string_method(std::string_view name);

/// For a method that Python has and this interpreter does not.
Result<Value> method_unsupported(const MethodCall& call);

}  // namespace ballast::chat
