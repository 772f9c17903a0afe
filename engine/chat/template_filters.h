// SPDX-License-Identifier: MIT
// The filters after `|`: trim, join, map, tojson, …
#pragma once

#include <string_view>

#include "engine/chat/template_callable.h"
#include "engine/chat/template_values.h"

namespace ballast::chat {

Result<Value> apply_filter(const Values& values,
                           std::string_view name,
                           const Value& value,
                           const Arguments& arguments);

/// Whether there is a filter of that name.
bool has_filter(std::string_view name);

/// What a filter function gets. Filters of text and numbers are in template_filters.cpp, those of
/// sequences in template_filters_sequence.cpp.
struct FilterCall {
    const Values& values;
    std::string_view name;
    const Value& value;
    const Arguments& arguments;

    Heap& heap() const { return values.heap(); }
};

using Filter = Result<Value> (*)(const FilterCall&);

/// Null if there is none of that name.
Filter find_sequence_filter(std::string_view name);

}  // namespace ballast::chat
