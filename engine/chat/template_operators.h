// SPDX-License-Identifier: MIT
// What operators, subscripts and attribute access do to values: Python's rules, with Jinja's for
// undefined and its sandbox's for what may be reached.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/chat/template_value.h"

namespace ballast::chat {

enum class Operator {
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kFloorDivide,
    kModulo,
    kPower,
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kIn,
    kNotIn,
};

/// An error for the template's author; the interpreter adds the line.
tl::unexpected<Error> template_error(std::string message);
/// The error that using an undefined value gives.
tl::unexpected<Error> undefined_error(const Value& value);

/// As Python names the type: "str", "dict", "NoneType".
std::string type_name(const Value& value);

bool truthy(const Value& value);
Result<std::int64_t> length(const Values& values, const Value& value);

Result<bool> equal(Heap& heap, const Value& a, const Value& b);
/// One of the six comparisons, `in` or `not in`.
Result<bool> compare(const Values& values, Operator op, const Value& a, const Value& b);
Result<bool> contains(const Values& values, const Value& container, const Value& item);
/// Stable; by `<`, as Python's sort.
Status sort_values(const Values& values, std::vector<Value>& keys_and_items, bool reverse);

using Entries = std::vector<std::pair<Value, Value>>;
Result<std::optional<std::size_t>> find_key(Heap& heap, const Entries& entries, const Value& key);
/// Borrowed from the dict; null if absent.
const Value* find_text_key(const DictObject& dict, std::string_view key);
Status check_hashable(const Value& value);

Result<Value> arithmetic(const Values& values, Operator op, const Value& a, const Value& b);
Result<Value> negate(const Value& value);

/// obj[index], falling back to an attribute, else undefined.
Result<Value> get_item(const Values& values, const Value& object, const Value& index);
/// obj.name, falling back to an item, else undefined.
Result<Value> get_attribute(const Values& values, const Value& object, std::string_view name);

/// Bounds of a slice; absent ones are none. A value that cannot be sliced is an error, not
/// undefined.
struct SliceBounds {
    Value start = Value::none();
    Value stop = Value::none();
    Value step = Value::none();
};
Result<Value> get_slice(const Values& values, const Value& object, const SliceBounds& bounds);

/// Walks anything that can be iterated, one value at a time.
class Cursor {
  public:
    static Result<Cursor> over(const Values& values, Value iterable);

    /// Nothing when there are no more.
    Result<std::optional<Value>> next();
    /// How many next() will still give.
    std::int64_t remaining() const { return remaining_; }

  private:
    Cursor(const Values& values, Value iterable, std::int64_t remaining)
        : values_(values), iterable_(std::move(iterable)), remaining_(remaining) {}

    Values values_;
    Value iterable_;
    std::int64_t remaining_ = 0;
    /// Byte offset in a string, else an index.
    std::size_t position_ = 0;
};

/// list(iterable); spends and checks the budget before it grows.
Result<std::vector<Value>> collect(const Values& values, const Value& iterable);

}  // namespace ballast::chat
