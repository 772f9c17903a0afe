// SPDX-License-Identifier: MIT
// Reaching into values: types, lengths, iteration, subscripts, slices and attributes.
#include <algorithm>
#include <limits>

#include "engine/chat/template_callable.h"
#include "engine/chat/template_markup.h"
#include "engine/chat/template_methods.h"
#include "engine/chat/template_operators.h"
#include "engine/chat/template_text.h"

namespace ballast::chat {

namespace {

/// Names come from templates and their data; a message shows the start of a long one.
std::string shortened(std::string_view name) {
    constexpr std::size_t kShownMax = 80;
    return name.size() <= kShownMax ? std::string(name)
                                    : std::string(name.substr(0, kShownMax)) + "…";
}

/// As Jinja names a value in messages about what it lacks.
std::string described(const Value& object) {
    if (object.is(Kind::kNone)) {
        return "None";
    }
    return type_name(object) + " object";
}

Value missing(const Values& values, const Value& object, std::string_view name) {
    return values.undefined("'" + described(object) + "' has no attribute '" + shortened(name) +
                            "'");
}

Result<Value> bound_method(const Values& values, const Value& self, std::string_view name) {
    BALLAST_TRY(auto charge, values.heap().charge(sizeof(CallableObject)));
    auto object = std::make_shared<CallableObject>();
    object->charge = std::move(charge);
    object->kind = CallableKind::kMethod;
    object->depth = self.depth() + 1;
    object->name = name;
    object->self = self;
    return Value::of(std::move(object));
}

/// What Python's getattr() finds, if anything.
Result<std::optional<Value>> own_attribute(const Values& values,
                                           const Value& object,
                                           std::string_view name) {
    if (object.is(Kind::kNamespace)) {
        if (const Value* found = object.name_space()->find(name)) {
            return std::optional<Value>(*found);
        }
        return std::optional<Value>();
    }
    switch (method_access(object, name)) {
        case MethodAccess::kNone:
            return std::optional<Value>();
        case MethodAccess::kUnsafe:
            return std::optional<Value>(values.undefined("access to attribute '" + shortened(name) +
                                                         "' of '" + type_name(object) +
                                                         "' object is unsafe."));
        case MethodAccess::kAllowed:
            break;
    }
    BALLAST_TRY(auto method, bound_method(values, object, name));
    return std::optional<Value>(std::move(method));
}

/// Python's rule for an index that may count from the end.
std::optional<std::size_t> resolve_index(Integer index, std::size_t size) {
    if (index < 0) {
        index += static_cast<Integer>(size);
    }
    if (index < 0 || index >= static_cast<Integer>(size)) {
        return std::nullopt;
    }
    return static_cast<std::size_t>(index);
}

Result<std::optional<Value>> element(const Values& values, const Value& object, Integer index) {
    using Found = std::optional<Value>;
    if (object.is_sequence()) {
        const auto at = resolve_index(index, object.items().size());
        return at ? Found(object.items()[*at]) : Found();
    }
    if (object.is(Kind::kRange)) {
        const RangeValue& range = object.range();
        const auto at = resolve_index(index, static_cast<std::size_t>(range.size()));
        return at ? Found(Value::integer(range.start + static_cast<Integer>(*at) * range.step))
                  : Found();
    }
    if (!object.is(Kind::kString)) {
        return Found();
    }
    const StringObject& string = object.string();
    const auto at = resolve_index(index, string.code_points);
    if (!at) {
        return Found();
    }
    BALLAST_TRY_STATUS(values.heap().spend_bytes(string.ascii() ? 1 : string.text.size()));
    const std::size_t byte = string.ascii() ? *at : byte_offset(string.text, *at);
    const std::size_t n = code_point_bytes(string.text, byte);
    BALLAST_TRY(auto character, values.string(string.text.substr(byte, n)));
    if (string.markup) {
        BALLAST_TRY(character, as_markup(values, character));
    }
    return Found(std::move(character));
}

struct Slice {
    std::int64_t start = 0;
    std::int64_t step = 1;
    std::int64_t count = 0;
};

std::int64_t clamp(Integer value, Integer low, Integer high) {
    return static_cast<std::int64_t>(std::clamp(value, low, high));
}

/// slice.indices(size), as a first index and a count.
Result<Slice> resolve_slice(const SliceBounds& bounds, std::int64_t size) {
    Slice slice;
    if (!bounds.step.is(Kind::kNone)) {
        const Integer limit = std::numeric_limits<std::int32_t>::max();
        slice.step = clamp(bounds.step.as_integer(), -limit, limit);
    }
    if (slice.step == 0) {
        return template_error("slice step cannot be zero");
    }
    const bool backward = slice.step < 0;
    const Integer low = backward ? -1 : 0;
    const Integer high = backward ? Integer{size} - 1 : Integer{size};
    const auto bound = [&](const Value& value, Integer absent) {
        if (value.is(Kind::kNone)) {
            return clamp(absent, low, high);
        }
        Integer at = value.as_integer();
        // Clamped first, so that adding the size cannot overflow.
        const Integer limit = std::numeric_limits<std::int64_t>::max();
        at = std::clamp(at, -limit, limit);
        return clamp(at < 0 ? at + size : at, low, high);
    };
    slice.start = bound(bounds.start, backward ? high : low);
    const std::int64_t stop = bound(bounds.stop, backward ? low : high);
    slice.count = RangeValue{slice.start, stop, slice.step}.size();
    return slice;
}

Result<Value> slice_string(const Values& values, const StringObject& string, const Slice& slice) {
    BALLAST_TRY_STATUS(values.heap().spend_bytes(string.text.size()));
    if (slice.count == 0) {
        return values.string("");
    }
    const auto first = static_cast<std::size_t>(slice.start);
    const auto count = static_cast<std::size_t>(slice.count);
    if (slice.step == 1) {
        const std::size_t begin = string.ascii() ? first : byte_offset(string.text, first);
        const std::string_view rest = std::string_view(string.text).substr(begin);
        return values.string(rest.substr(0, string.ascii() ? count : byte_offset(rest, count)));
    }
    BALLAST_TRY_STATUS(values.heap().spend(string.code_points));
    BALLAST_TRY_STATUS(values.heap().ensure(string.code_points, sizeof(std::size_t)));
    std::vector<std::size_t> starts;
    starts.reserve(string.code_points);
    for (std::size_t at = 0; at < string.text.size(); at += code_point_bytes(string.text, at)) {
        starts.push_back(at);
    }
    std::string out;
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t index = slice.start + static_cast<std::int64_t>(i) * slice.step;
        const std::size_t byte = starts[static_cast<std::size_t>(index)];
        out.append(string.text, byte, code_point_bytes(string.text, byte));
    }
    return values.string(std::move(out));
}

}  // namespace

std::string type_name(const Value& value) {
    switch (value.kind()) {
        case Kind::kUndefined:
            return "Undefined";
        case Kind::kNone:
            return "NoneType";
        case Kind::kBool:
            return "bool";
        case Kind::kInteger:
            return "int";
        case Kind::kFloat:
            return "float";
        case Kind::kString:
            return "str";
        case Kind::kList:
            return "list";
        case Kind::kTuple:
            return "tuple";
        case Kind::kDict:
            return "dict";
        case Kind::kRange:
            return "range";
        case Kind::kView:
            return value.view().part == ViewPart::kItems  ? "dict_items"
                   : value.view().part == ViewPart::kKeys ? "dict_keys"
                                                          : "dict_values";
        case Kind::kIterator:
            return value.iterator().type_name;
        case Kind::kNamespace:
            return "Namespace";
        case Kind::kCallable:
            break;
    }
    switch (value.callable().kind) {
        case CallableKind::kMacro:
            return "Macro";
        case CallableKind::kMethod:
            return "builtin_function_or_method";
        case CallableKind::kLoop:
            return "LoopContext";
        case CallableKind::kCycler:
            return "Cycler";
        case CallableKind::kJoiner:
            return "Joiner";
        default:
            return "function";
    }
}

Result<std::int64_t> length(const Values& values, const Value& value) {
    switch (value.kind()) {
        case Kind::kIterator:
        case Kind::kCallable:
        case Kind::kNamespace:
        case Kind::kNone:
        case Kind::kBool:
        case Kind::kInteger:
        case Kind::kFloat:
            return template_error("object of type '" + type_name(value) + "' has no len()");
        default: {
            BALLAST_TRY(const auto cursor, Cursor::over(values, value));
            return cursor.remaining();
        }
    }
}

Result<std::optional<std::size_t>> find_key(Heap& heap, const Entries& entries, const Value& key) {
    BALLAST_TRY_STATUS(heap.spend(1 + entries.size() / 16));
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const Value& candidate = entries[i].first;
        if (candidate.is(Kind::kString) && key.is(Kind::kString)) {
            if (candidate.text() == key.text()) {
                return std::optional<std::size_t>(i);
            }
            continue;
        }
        if (candidate.is(Kind::kString) || key.is(Kind::kString)) {
            continue;
        }
        BALLAST_TRY(const bool same, equal(heap, candidate, key));
        if (same) {
            return std::optional<std::size_t>(i);
        }
    }
    return std::optional<std::size_t>();
}

const Value* find_text_key(const DictObject& dict, std::string_view key) {
    for (const auto& [candidate, value] : dict.entries) {
        if (candidate.is(Kind::kString) && candidate.text() == key) {
            return &value;
        }
    }
    return nullptr;
}

Status check_hashable(const Value& value) {
    if (value.is(Kind::kList) || value.is(Kind::kDict)) {
        return template_error("unhashable type: '" + type_name(value) + "'");
    }
    if (value.is(Kind::kTuple)) {
        for (const Value& item : value.items()) {
            BALLAST_TRY_STATUS(check_hashable(item));
        }
    }
    return {};
}

Result<Value> get_item(const Values& values, const Value& object, const Value& index) {
    BALLAST_TRY_STATUS(values.heap().spend(1));
    if (object.is(Kind::kUndefined)) {
        return undefined_error(object);
    }
    if (object.is(Kind::kDict)) {
        if (check_hashable(index)) {
            BALLAST_TRY(const auto at, find_key(values.heap(), object.dict().entries, index));
            if (at) {
                return object.dict().entries[*at].second;
            }
        }
    } else if (index.is_integral()) {
        BALLAST_TRY(auto found, element(values, object, index.as_integer()));
        if (found) {
            return *std::move(found);
        }
        return values.undefined(described(object) + " has no such element");
    }
    if (index.is(Kind::kString)) {
        BALLAST_TRY(auto found, own_attribute(values, object, index.text()));
        return found ? *std::move(found) : missing(values, object, index.text());
    }
    return values.undefined(described(object) + " has no such element");
}

Result<Value> get_attribute(const Values& values, const Value& object, std::string_view name) {
    BALLAST_TRY_STATUS(values.heap().spend(1));
    if (object.is(Kind::kUndefined)) {
        return undefined_error(object);
    }
    BALLAST_TRY(auto found, own_attribute(values, object, name));
    if (found) {
        return *std::move(found);
    }
    if (object.is(Kind::kDict)) {
        BALLAST_TRY_STATUS(values.heap().spend(object.dict().entries.size() / 16));
        if (const Value* entry = find_text_key(object.dict(), name)) {
            return *entry;
        }
    }
    return missing(values, object, name);
}

Result<Value> get_slice(const Values& values, const Value& object, const SliceBounds& bounds) {
    if (object.is(Kind::kUndefined)) {
        return undefined_error(object);
    }
    const auto usable = [](const Value& v) { return v.is(Kind::kNone) || v.is_integral(); };
    const bool sliceable =
        object.is(Kind::kString) || object.is_sequence() || object.is(Kind::kRange);
    if (!sliceable || !usable(bounds.start) || !usable(bounds.stop) || !usable(bounds.step)) {
        return template_error("'" + described(object) + "' cannot be sliced like that");
    }
    BALLAST_TRY(const std::int64_t size, length(values, object));
    BALLAST_TRY(const Slice slice, resolve_slice(bounds, size));
    if (object.is(Kind::kString)) {
        BALLAST_TRY(const auto text, slice_string(values, object.string(), slice));
        return is_markup(object) ? as_markup(values, text) : Result<Value>(text);
    }
    if (object.is(Kind::kRange)) {
        const RangeValue& range = object.range();
        const std::int64_t start = range.start + slice.start * range.step;
        const std::int64_t step = range.step * slice.step;
        return Value::of(RangeValue{start, start + slice.count * step, step});
    }
    const auto count = static_cast<std::uint64_t>(slice.count);
    BALLAST_TRY_STATUS(values.heap().ensure(count, sizeof(Value)));
    std::vector<Value> out;
    out.reserve(count);
    for (std::int64_t i = 0; i < slice.count; ++i) {
        out.push_back(object.items()[static_cast<std::size_t>(slice.start + i * slice.step)]);
    }
    return object.is(Kind::kList) ? values.list(std::move(out)) : values.tuple(std::move(out));
}

Result<Cursor> Cursor::over(const Values& values, Value iterable) {
    std::size_t size = 0;
    switch (iterable.kind()) {
        case Kind::kUndefined:
            break;
        case Kind::kString:
            size = iterable.string().code_points;
            break;
        case Kind::kList:
        case Kind::kTuple:
            size = iterable.items().size();
            break;
        case Kind::kDict:
            size = iterable.dict().entries.size();
            break;
        case Kind::kView:
            size = iterable.view().dict->entries.size();
            break;
        case Kind::kRange:
            size = static_cast<std::size_t>(iterable.range().size());
            break;
        case Kind::kIterator:
            size = iterable.iterator().items.size() - iterable.iterator().next;
            break;
        default:
            return template_error("'" + type_name(iterable) + "' object is not iterable");
    }
    return Cursor(values, std::move(iterable), static_cast<std::int64_t>(size));
}

Result<std::optional<Value>> Cursor::next() {
    using Next = std::optional<Value>;
    BALLAST_TRY_STATUS(values_.heap().spend(1));
    if (iterable_.is(Kind::kIterator)) {
        // Another cursor over the same generator may have taken some.
        IteratorObject& iterator = iterable_.iterator();
        remaining_ = static_cast<std::int64_t>(iterator.items.size() - iterator.next);
    }
    if (remaining_ <= 0) {
        return Next();
    }
    --remaining_;
    switch (iterable_.kind()) {
        case Kind::kString: {
            const std::string& text = iterable_.text();
            const std::size_t n = code_point_bytes(text, position_);
            BALLAST_TRY(auto character, values_.string(text.substr(position_, n)));
            position_ += n;
            return Next(std::move(character));
        }
        case Kind::kRange: {
            const RangeValue& range = iterable_.range();
            const auto at = static_cast<Integer>(position_++);
            return Next(Value::integer(range.start + at * range.step));
        }
        case Kind::kDict:
            return Next(iterable_.dict().entries[position_++].first);
        case Kind::kView: {
            const auto& [key, value] = iterable_.view().dict->entries[position_++];
            if (iterable_.view().part == ViewPart::kItems) {
                BALLAST_TRY(auto entry, values_.pair(key, value));
                return Next(std::move(entry));
            }
            return Next(iterable_.view().part == ViewPart::kKeys ? key : value);
        }
        case Kind::kIterator: {
            IteratorObject& iterator = iterable_.iterator();
            return Next(iterator.items[iterator.next++]);
        }
        default:
            return Next(iterable_.items()[position_++]);
    }
}

Result<std::vector<Value>> collect(const Values& values, const Value& iterable) {
    BALLAST_TRY(auto cursor, Cursor::over(values, iterable));
    const auto count = static_cast<std::uint64_t>(cursor.remaining());
    BALLAST_TRY_STATUS(values.heap().spend(count));
    BALLAST_TRY_STATUS(values.heap().ensure(count, sizeof(Value)));
    std::vector<Value> items;
    items.reserve(count);
    while (true) {
        BALLAST_TRY(auto item, cursor.next());
        if (!item) {
            return items;
        }
        items.push_back(*std::move(item));
    }
}

}  // namespace ballast::chat
