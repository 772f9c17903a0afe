// SPDX-License-Identifier: MIT
// The values a template computes with, as Python has them: None, numbers, strings of code points,
// lists, tuples, dicts that keep their order, and Jinja's undefined. All containers are immutable,
// as in Jinja's immutable sandbox, so they are shared freely and no cycle can arise; what a
// template can change (namespaces, scopes, loops) is owned by the interpreter instead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/result.h"
#include "engine/chat/template_heap.h"

namespace ballast::chat {

/// Python's int, as far as templates go: 128 bits hold every JSON number; beyond is an error.
__extension__ typedef __int128 Integer;  // NOLINT(modernize-use-using): no __extension__ there

class Value;
struct CallableObject;
struct NamespaceObject;

struct UndefinedValue {
    /// Why it is undefined, for the error that using it gives; may be null.
    std::shared_ptr<const std::string> why;
};

struct NoneValue {};

struct StringObject {
    Charge charge;
    std::string text;
    std::size_t code_points = 0;
    /// Whether it is safe HTML (template_markup.h).
    bool markup = false;

    bool ascii() const { return code_points == text.size(); }
};

struct SequenceObject;
struct DictObject;
struct ViewObject;
struct IteratorObject;

struct ListRef {
    std::shared_ptr<const SequenceObject> object;
};
struct TupleRef {
    std::shared_ptr<const SequenceObject> object;
};

/// range(start, stop, step); step is not 0.
struct RangeValue {
    std::int64_t start = 0;
    std::int64_t stop = 0;
    std::int64_t step = 1;

    std::int64_t size() const;
};

/// The alternatives of Value's variant, in the same order.
enum class Kind {
    kUndefined,
    kNone,
    kBool,
    kInteger,
    kFloat,
    kString,
    kList,
    kTuple,
    kDict,
    kRange,
    kView,
    kIterator,
    kNamespace,
    kCallable,
};

class Value {
  public:
    using Data = std::variant<UndefinedValue,
                              NoneValue,
                              bool,
                              Integer,
                              double,
                              std::shared_ptr<const StringObject>,
                              ListRef,
                              TupleRef,
                              std::shared_ptr<const DictObject>,
                              RangeValue,
                              std::shared_ptr<const ViewObject>,
                              std::shared_ptr<IteratorObject>,
                              NamespaceObject*,
                              std::shared_ptr<CallableObject>>;

    Value() = default;
    template <class Alternative>
    static Value of(Alternative alternative) {
        Value value;
        value.data_ = std::move(alternative);
        return value;
    }
    static Value none() { return of(NoneValue{}); }
    static Value boolean(bool value) { return of(value); }
    static Value integer(Integer value) { return of(value); }
    static Value real(double value) { return of(value); }

    Kind kind() const { return static_cast<Kind>(data_.index()); }
    bool is(Kind kind) const { return this->kind() == kind; }
    bool is_sequence() const { return is(Kind::kList) || is(Kind::kTuple); }
    /// bool counts as an int, as in Python.
    bool is_integral() const { return is(Kind::kBool) || is(Kind::kInteger); }
    bool is_number() const { return is_integral() || is(Kind::kFloat); }

    bool as_bool() const { return std::get<bool>(data_); }
    /// Of a bool or an integer.
    Integer as_integer() const {
        return is(Kind::kBool) ? Integer{as_bool()} : std::get<Integer>(data_);
    }
    /// Of any number.
    double as_double() const {
        return is(Kind::kFloat) ? std::get<double>(data_) : static_cast<double>(as_integer());
    }
    const StringObject& string() const {
        return *std::get<std::shared_ptr<const StringObject>>(data_);
    }
    const std::string& text() const { return string().text; }
    /// Of a list or tuple.
    const std::vector<Value>& items() const;
    const DictObject& dict() const { return *std::get<std::shared_ptr<const DictObject>>(data_); }
    std::shared_ptr<const DictObject> shared_dict() const {
        return std::get<std::shared_ptr<const DictObject>>(data_);
    }
    const RangeValue& range() const { return std::get<RangeValue>(data_); }
    const ViewObject& view() const { return *std::get<std::shared_ptr<const ViewObject>>(data_); }
    IteratorObject& iterator() const { return *std::get<std::shared_ptr<IteratorObject>>(data_); }
    NamespaceObject* name_space() const { return std::get<NamespaceObject*>(data_); }
    CallableObject& callable() const { return *std::get<std::shared_ptr<CallableObject>>(data_); }
    const UndefinedValue& undefined() const { return std::get<UndefinedValue>(data_); }

    /// How many containers lie within each other; bounds every recursion over values.
    std::uint32_t depth() const;

  private:
    Data data_;
};

struct SequenceObject {
    Charge charge;
    std::vector<Value> items;
    std::uint32_t depth = 1;
};

struct DictObject {
    Charge charge;
    std::vector<std::pair<Value, Value>> entries;
    std::uint32_t depth = 1;
};

enum class ViewPart { kItems, kKeys, kValues };

/// What dict.items(), keys() and values() give: can be iterated again, but not indexed.
struct ViewObject {
    ViewPart part = ViewPart::kItems;
    std::shared_ptr<const DictObject> dict;
};

/// A generator: iterates once, has no length and no index, is always true.
struct IteratorObject {
    Charge charge;
    std::vector<Value> items;
    std::size_t next = 0;
    std::uint32_t depth = 1;
    /// As Python prints the type.
    std::string type_name = "generator";
};

/// namespace(): the one thing a template may assign to from an inner scope. The interpreter owns
/// it.
struct NamespaceObject {
    Charge charge;
    std::vector<std::pair<std::string, Value>> attributes;

    Value* find(std::string_view name);
};

}  // namespace ballast::chat
