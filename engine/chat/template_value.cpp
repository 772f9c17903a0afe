// SPDX-License-Identifier: MIT
// Making values, and the accounting that keeps an untrusted template within its limits.
#include "engine/chat/template_value.h"

#include <algorithm>
#include <limits>

#include "engine/chat/template_callable.h"
#include "engine/chat/template_operators.h"
#include "engine/chat/template_text.h"
#include "engine/chat/template_values.h"

namespace ballast::chat {

Charge& Charge::operator=(Charge&& other) noexcept {
    if (this != &other) {
        release();
        heap_ = other.heap_;
        bytes_ = other.bytes_;
        other.heap_ = nullptr;
    }
    return *this;
}

void Charge::release() {
    if (heap_ != nullptr) {
        heap_->bytes_ -= bytes_;
        heap_ = nullptr;
    }
}

Status Heap::out_of_steps() {
    return fail(ErrorCode::kInvalidRequest, "the chat template takes too many steps to render");
}

Status Heap::ensure(std::uint64_t bytes) const {
    if (bytes > limits_.bytes_max || bytes_ > limits_.bytes_max - bytes) {
        return fail(ErrorCode::kInvalidRequest,
                    "the chat template needs too much memory to render");
    }
    return {};
}

Status Heap::ensure(std::uint64_t count, std::uint64_t bytes_each) const {
    if (bytes_each != 0 && count > std::numeric_limits<std::uint64_t>::max() / bytes_each) {
        return ensure(std::numeric_limits<std::uint64_t>::max());
    }
    return ensure(count * bytes_each);
}

Result<Charge> Heap::charge(std::uint64_t bytes) {
    BALLAST_TRY_STATUS(ensure(bytes));
    bytes_ += bytes;
    return Charge(*this, bytes);
}

std::int64_t RangeValue::size() const {
    if (step > 0 ? start >= stop : start <= stop) {
        return 0;
    }
    // In 128 bits, as the ends may be the ends of 64 bits.
    const Integer distance = step > 0 ? Integer{stop} - start : Integer{start} - stop;
    const Integer stride = step > 0 ? Integer{step} : -Integer{step};
    return static_cast<std::int64_t>((distance + stride - 1) / stride);
}

const std::vector<Value>& Value::items() const {
    return is(Kind::kList) ? std::get<ListRef>(data_).object->items
                           : std::get<TupleRef>(data_).object->items;
}

std::uint32_t Value::depth() const {
    switch (kind()) {
        case Kind::kList:
            return std::get<ListRef>(data_).object->depth;
        case Kind::kTuple:
            return std::get<TupleRef>(data_).object->depth;
        case Kind::kDict:
            return dict().depth;
        case Kind::kView:
            // Its items are tuples made on the fly.
            return view().dict->depth + 2;
        case Kind::kIterator:
            return iterator().depth;
        case Kind::kCallable:
            return callable().depth;
        default:
            return 0;
    }
}

Value* NamespaceObject::find(std::string_view name) {
    for (auto& [key, value] : attributes) {
        if (key == name) {
            return &value;
        }
    }
    return nullptr;
}

Result<Value> Values::make_string(std::string text, bool markup) const {
    BALLAST_TRY_STATUS(heap_.spend_bytes(text.size()));
    BALLAST_TRY(auto charge, heap_.charge(sizeof(StringObject) + text.size()));
    auto object = std::make_shared<StringObject>();
    object->charge = std::move(charge);
    object->markup = markup;
    object->code_points = count_code_points(text);
    object->text = std::move(text);
    return Value::of(std::shared_ptr<const StringObject>(std::move(object)));
}

Result<std::uint32_t> Values::depth_over(std::uint32_t inner) const {
    if (inner >= heap_.limits().value_depth_max) {
        return fail(ErrorCode::kInvalidRequest,
                    "the chat template's data is nested deeper than " +
                        std::to_string(heap_.limits().value_depth_max) + " levels");
    }
    return inner + 1;
}

Result<std::shared_ptr<const SequenceObject>> Values::sequence(std::vector<Value> items) const {
    BALLAST_TRY_STATUS(heap_.spend(1 + items.size() / 8));
    BALLAST_TRY(auto charge, heap_.charge(sizeof(SequenceObject) + items.size() * sizeof(Value)));
    std::uint32_t inner = 0;
    for (const Value& item : items) {
        inner = std::max(inner, item.depth());
    }
    BALLAST_TRY(const std::uint32_t depth, depth_over(inner));
    auto object = std::make_shared<SequenceObject>();
    object->charge = std::move(charge);
    object->depth = depth;
    object->items = std::move(items);
    return std::shared_ptr<const SequenceObject>(std::move(object));
}

Result<Value> Values::list(std::vector<Value> items) const {
    BALLAST_TRY(auto object, sequence(std::move(items)));
    return Value::of(ListRef{std::move(object)});
}

Result<Value> Values::tuple(std::vector<Value> items) const {
    BALLAST_TRY(auto object, sequence(std::move(items)));
    return Value::of(TupleRef{std::move(object)});
}

Result<Value> Values::pair(Value first, Value second) const {
    std::vector<Value> both;
    both.reserve(2);
    both.push_back(std::move(first));
    both.push_back(std::move(second));
    return tuple(std::move(both));
}

Result<Value> Values::dict(std::vector<std::pair<Value, Value>> entries, bool keys_distinct) const {
    if (!keys_distinct) {
        std::vector<std::pair<Value, Value>> distinct;
        for (auto& [key, value] : entries) {
            BALLAST_TRY_STATUS(check_hashable(key));
            BALLAST_TRY(const auto at, find_key(heap_, distinct, key));
            if (at) {
                distinct[*at].second = std::move(value);
            } else {
                distinct.emplace_back(std::move(key), std::move(value));
            }
        }
        entries = std::move(distinct);
    }
    BALLAST_TRY_STATUS(heap_.spend(1 + entries.size() / 8));
    BALLAST_TRY(auto charge, heap_.charge(sizeof(DictObject) + entries.size() * 2 * sizeof(Value)));
    std::uint32_t inner = 0;
    for (const auto& [key, value] : entries) {
        inner = std::max({inner, key.depth(), value.depth()});
    }
    BALLAST_TRY(const std::uint32_t depth, depth_over(inner));
    auto object = std::make_shared<DictObject>();
    object->charge = std::move(charge);
    object->depth = depth;
    object->entries = std::move(entries);
    return Value::of(std::shared_ptr<const DictObject>(std::move(object)));
}

Result<Value> Values::iterator(std::vector<Value> items, std::string type_name) const {
    BALLAST_TRY_STATUS(heap_.spend(1 + items.size() / 8));
    BALLAST_TRY(auto charge, heap_.charge(sizeof(IteratorObject) + items.size() * sizeof(Value)));
    std::uint32_t inner = 0;
    for (const Value& item : items) {
        inner = std::max(inner, item.depth());
    }
    BALLAST_TRY(const std::uint32_t depth, depth_over(inner));
    auto object = std::make_shared<IteratorObject>();
    object->charge = std::move(charge);
    object->depth = depth;
    object->items = std::move(items);
    object->type_name = std::move(type_name);
    return Value::of(std::move(object));
}

Value Values::undefined(std::string why) const {
    return Value::of(UndefinedValue{std::make_shared<const std::string>(std::move(why))});
}

}  // namespace ballast::chat
