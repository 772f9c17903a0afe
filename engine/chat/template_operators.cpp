// SPDX-License-Identifier: MIT
// Truth, equality, order, membership and arithmetic.
#include "engine/chat/template_operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/chat/template_callable.h"
#include "engine/chat/template_format.h"
#include "engine/chat/template_markup.h"
#include "engine/chat/template_search.h"

namespace ballast::chat {

namespace {

const char* symbol(Operator op) {
    switch (op) {
        case Operator::kAdd:
            return "+";
        case Operator::kSubtract:
            return "-";
        case Operator::kMultiply:
            return "*";
        case Operator::kDivide:
            return "/";
        case Operator::kFloorDivide:
            return "//";
        case Operator::kModulo:
            return "%";
        case Operator::kPower:
            return "**";
        case Operator::kLess:
            return "<";
        case Operator::kLessEqual:
            return "<=";
        case Operator::kGreater:
            return ">";
        case Operator::kGreaterEqual:
            return ">=";
        default:
            return "==";
    }
}

tl::unexpected<Error> unsupported(Operator op, const Value& a, const Value& b) {
    return template_error(std::string("unsupported operand types for ") + symbol(op) + ": '" +
                          type_name(a) + "' and '" + type_name(b) + "'");
}

Result<bool> equal_items(Heap& heap, const std::vector<Value>& a, const std::vector<Value>& b) {
    if (a.size() != b.size()) {
        return false;
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
        BALLAST_TRY(const bool same, equal(heap, a[i], b[i]));
        if (!same) {
            return false;
        }
    }
    return true;
}

Result<bool> equal_dicts(Heap& heap, const DictObject& a, const DictObject& b) {
    if (a.entries.size() != b.entries.size()) {
        return false;
    }
    for (const auto& [key, value] : a.entries) {
        BALLAST_TRY(const auto at, find_key(heap, b.entries, key));
        if (!at) {
            return false;
        }
        BALLAST_TRY(const bool same, equal(heap, value, b.entries[*at].second));
        if (!same) {
            return false;
        }
    }
    return true;
}

bool equal_ranges(const RangeValue& a, const RangeValue& b) {
    const std::int64_t n = a.size();
    return n == b.size() && (n == 0 || (a.start == b.start && (n == 1 || a.step == b.step)));
}

/// -1, 0, 1, or 2 for numbers that cannot be ordered (NaN).
int order_numbers(const Value& a, const Value& b) {
    if (a.is_integral() && b.is_integral()) {
        return a.as_integer() < b.as_integer() ? -1 : (a.as_integer() > b.as_integer() ? 1 : 0);
    }
    const double x = a.as_double();
    const double y = b.as_double();
    if (x < y) {
        return -1;
    }
    return x > y ? 1 : (x == y ? 0 : 2);
}

bool decide(Operator op, int order) {
    switch (op) {
        case Operator::kLess:
            return order == -1;
        case Operator::kLessEqual:
            return order == -1 || order == 0;
        case Operator::kGreater:
            return order == 1;
        default:
            return order == 1 || order == 0;
    }
}

Result<bool> ordered(const Values& values, Operator op, const Value& a, const Value& b) {
    BALLAST_TRY_STATUS(values.heap().spend(1));
    if (a.is_number() && b.is_number()) {
        return decide(op, order_numbers(a, b));
    }
    if (a.is(Kind::kString) && b.is(Kind::kString)) {
        BALLAST_TRY_STATUS(values.heap().spend_bytes(std::min(a.text().size(), b.text().size())));
        // UTF-8 sorts as its code points do.
        const int order = a.text().compare(b.text());
        return decide(op, order < 0 ? -1 : (order > 0 ? 1 : 0));
    }
    if (a.is_sequence() && a.kind() == b.kind()) {
        const auto& x = a.items();
        const auto& y = b.items();
        for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
            BALLAST_TRY(const bool same, equal(values.heap(), x[i], y[i]));
            if (!same) {
                return ordered(values, op, x[i], y[i]);
            }
        }
        return decide(op, x.size() < y.size() ? -1 : (x.size() > y.size() ? 1 : 0));
    }
    for (const Value* side : {&a, &b}) {
        if (side->is(Kind::kUndefined)) {
            return undefined_error(*side);
        }
    }
    return template_error(std::string("'") + symbol(op) + "' not supported between instances of '" +
                          type_name(a) + "' and '" + type_name(b) + "'");
}

Result<Value> too_large() {
    return template_error("an integer in the template is too large");
}

Integer floor_divide(Integer a, Integer b) {
    const Integer quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Result<Value> integer_power(Integer base, Integer exponent) {
    Integer result = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
            return too_large();
        }
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
            return too_large();
        }
    }
    return Value::integer(result);
}

Result<Value> integer_arithmetic(Operator op, Integer a, Integer b) {
    Integer result = 0;
    switch (op) {
        case Operator::kAdd:
            return __builtin_add_overflow(a, b, &result) ? too_large() : Value::integer(result);
        case Operator::kSubtract:
            return __builtin_sub_overflow(a, b, &result) ? too_large() : Value::integer(result);
        case Operator::kMultiply:
            return __builtin_mul_overflow(a, b, &result) ? too_large() : Value::integer(result);
        case Operator::kPower:
            if (b >= 0) {
                return integer_power(a, b);
            }
            if (a == 0) {
                return template_error("0 cannot be raised to a negative power");
            }
            return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
        default:
            break;
    }
    if (b == 0) {
        return template_error("division by zero");
    }
    if (op == Operator::kDivide) {
        return Value::real(static_cast<double>(a) / static_cast<double>(b));
    }
    // The one division of two's complement that overflows: the least number by -1.
    if (b == -1) {
        return op == Operator::kModulo ? Value::integer(0)
                                       : integer_arithmetic(Operator::kSubtract, 0, a);
    }
    const Integer quotient = floor_divide(a, b);
    return Value::integer(op == Operator::kFloorDivide ? quotient : a - quotient * b);
}

Result<Value> float_arithmetic(Operator op, double a, double b) {
    switch (op) {
        case Operator::kAdd:
            return Value::real(a + b);
        case Operator::kSubtract:
            return Value::real(a - b);
        case Operator::kMultiply:
            return Value::real(a * b);
        case Operator::kPower:
            if (a == 0 && b < 0) {
                return template_error("0.0 cannot be raised to a negative power");
            }
            return Value::real(std::pow(a, b));
        default:
            break;
    }
    if (b == 0) {
        return template_error("float division by zero");
    }
    if (op == Operator::kDivide) {
        return Value::real(a / b);
    }
    double remainder = std::fmod(a, b);
    if (remainder != 0 && (remainder < 0) != (b < 0)) {
        remainder += b;
    } else if (remainder == 0) {
        remainder = std::copysign(0.0, b);
    }
    if (op == Operator::kModulo) {
        return Value::real(remainder);
    }
    // The quotient is a whole number up to rounding; take the nearest one.
    return Value::real(std::round((a - remainder) / b));
}

Result<Value> repeat(const Values& values, const Value& sequence, Integer times) {
    if (times < 0) {
        times = 0;
    }
    if (times > std::numeric_limits<std::int32_t>::max()) {
        return template_error("cannot repeat a sequence that often");
    }
    const auto n = static_cast<std::uint64_t>(times);
    if (sequence.is(Kind::kString)) {
        BALLAST_TRY_STATUS(values.heap().ensure(n, sequence.text().size()));
        std::string out;
        out.reserve(sequence.text().size() * n);
        for (std::uint64_t i = 0; i < n && !sequence.text().empty(); ++i) {
            out += sequence.text();
        }
        return is_markup(sequence) ? values.markup(std::move(out)) : values.string(std::move(out));
    }
    const auto& items = sequence.items();
    BALLAST_TRY_STATUS(values.heap().ensure(n, items.size() * sizeof(Value)));
    std::vector<Value> out;
    out.reserve(items.size() * n);
    for (std::uint64_t i = 0; i < n && !items.empty(); ++i) {
        out.insert(out.end(), items.begin(), items.end());
    }
    return sequence.is(Kind::kList) ? values.list(std::move(out)) : values.tuple(std::move(out));
}

Result<Value> concatenate(const Values& values, const Value& a, const Value& b) {
    if (is_markup(a) || is_markup(b)) {
        BALLAST_TRY(const auto left, escaped(values, a));
        BALLAST_TRY(const auto right, escaped(values, b));
        BALLAST_TRY_STATUS(values.heap().ensure(left.text().size() + right.text().size()));
        return values.markup(left.text() + right.text());
    }
    if (a.is(Kind::kString)) {
        BALLAST_TRY_STATUS(values.heap().ensure(a.text().size() + b.text().size()));
        return values.string(a.text() + b.text());
    }
    BALLAST_TRY_STATUS(values.heap().ensure((a.items().size() + b.items().size()) * sizeof(Value)));
    std::vector<Value> out = a.items();
    out.insert(out.end(), b.items().begin(), b.items().end());
    return a.is(Kind::kList) ? values.list(std::move(out)) : values.tuple(std::move(out));
}

/// The right side of markup % value, with the strings in it escaped.
Result<Value> escaped_items(const Values& values, const Value& value) {
    if (!value.is(Kind::kTuple)) {
        return escaped(values, value);
    }
    std::vector<Value> items = value.items();
    for (Value& item : items) {
        BALLAST_TRY(item, escaped(values, item));
    }
    return values.tuple(std::move(items));
}

}  // namespace

tl::unexpected<Error> template_error(std::string message) {
    return fail(ErrorCode::kInvalidRequest, std::move(message));
}

tl::unexpected<Error> undefined_error(const Value& value) {
    const auto& why = value.undefined().why;
    return template_error(why ? *why : "an undefined value is used");
}

bool truthy(const Value& value) {
    switch (value.kind()) {
        case Kind::kUndefined:
        case Kind::kNone:
            return false;
        case Kind::kBool:
            return value.as_bool();
        case Kind::kInteger:
            return value.as_integer() != 0;
        case Kind::kFloat:
            return value.as_double() != 0;
        case Kind::kString:
            return !value.text().empty();
        case Kind::kList:
        case Kind::kTuple:
            return !value.items().empty();
        case Kind::kDict:
            return !value.dict().entries.empty();
        case Kind::kRange:
            return value.range().size() != 0;
        case Kind::kView:
            return !value.view().dict->entries.empty();
        default:
            return true;
    }
}

Result<bool> equal(Heap& heap, const Value& a, const Value& b) {
    BALLAST_TRY_STATUS(heap.spend(1));
    if (a.is_number() && b.is_number()) {
        return order_numbers(a, b) == 0;
    }
    if (a.kind() != b.kind()) {
        return false;
    }
    switch (a.kind()) {
        case Kind::kUndefined:
        case Kind::kNone:
            return true;
        case Kind::kString:
            BALLAST_TRY_STATUS(heap.spend_bytes(std::min(a.text().size(), b.text().size())));
            return a.text() == b.text();
        case Kind::kList:
        case Kind::kTuple:
            return equal_items(heap, a.items(), b.items());
        case Kind::kDict:
            return equal_dicts(heap, a.dict(), b.dict());
        case Kind::kRange:
            return equal_ranges(a.range(), b.range());
        case Kind::kIterator:
            return &a.iterator() == &b.iterator();
        case Kind::kNamespace:
            return a.name_space() == b.name_space();
        case Kind::kCallable:
            return &a.callable() == &b.callable();
        default:
            return false;
    }
}

Result<bool> compare(const Values& values, Operator op, const Value& a, const Value& b) {
    switch (op) {
        case Operator::kEqual:
            return equal(values.heap(), a, b);
        case Operator::kNotEqual: {
            BALLAST_TRY(const bool same, equal(values.heap(), a, b));
            return !same;
        }
        case Operator::kIn:
            return contains(values, b, a);
        case Operator::kNotIn: {
            BALLAST_TRY(const bool found, contains(values, b, a));
            return !found;
        }
        default:
            return ordered(values, op, a, b);
    }
}

Result<bool> contains(const Values& values, const Value& container, const Value& item) {
    if (container.is(Kind::kString)) {
        if (item.is(Kind::kUndefined)) {
            return undefined_error(item);
        }
        if (!item.is(Kind::kString)) {
            return template_error("'in <string>' requires string as left operand, not " +
                                  type_name(item));
        }
        BALLAST_TRY_STATUS(values.heap().spend_search(container.text(), item.text()));
        return TextSearch(item.text()).find(container.text()) != std::string::npos;
    }
    if (container.is(Kind::kDict) ||
        (container.is(Kind::kView) && container.view().part == ViewPart::kKeys)) {
        BALLAST_TRY_STATUS(check_hashable(item));
        const DictObject& dict =
            container.is(Kind::kDict) ? container.dict() : *container.view().dict;
        BALLAST_TRY(const auto at, find_key(values.heap(), dict.entries, item));
        return at.has_value();
    }
    if (container.is(Kind::kNone) || container.is_number()) {
        return template_error("argument of type '" + type_name(container) + "' is not iterable");
    }
    BALLAST_TRY(auto cursor, Cursor::over(values, container));
    while (true) {
        BALLAST_TRY(const auto candidate, cursor.next());
        if (!candidate) {
            return false;
        }
        BALLAST_TRY(const bool same, equal(values.heap(), *candidate, item));
        if (same) {
            return true;
        }
    }
}

Result<Value> arithmetic(const Values& values, Operator op, const Value& a, const Value& b) {
    BALLAST_TRY_STATUS(values.heap().spend(1));
    if (op == Operator::kModulo && a.is(Kind::kString)) {
        if (!is_markup(a)) {
            return percent_format(values, a.text(), b);
        }
        BALLAST_TRY(const auto arguments, escaped_items(values, b));
        BALLAST_TRY(const auto text, percent_format(values, a.text(), arguments));
        return as_markup(values, text);
    }
    for (const Value* side : {&a, &b}) {
        if (side->is(Kind::kUndefined)) {
            return undefined_error(*side);
        }
    }
    if (a.is_integral() && b.is_integral()) {
        return integer_arithmetic(op, a.as_integer(), b.as_integer());
    }
    if (a.is_number() && b.is_number()) {
        return float_arithmetic(op, a.as_double(), b.as_double());
    }
    const auto repeatable = [](const Value& v) { return v.is(Kind::kString) || v.is_sequence(); };
    if (op == Operator::kAdd && repeatable(a)) {
        if (a.kind() != b.kind()) {
            return template_error("can only concatenate " + type_name(a) + " (not \"" +
                                  type_name(b) + "\") to " + type_name(a));
        }
        return concatenate(values, a, b);
    }
    if (op == Operator::kMultiply && repeatable(a) && b.is_integral()) {
        return repeat(values, a, b.as_integer());
    }
    if (op == Operator::kMultiply && repeatable(b) && a.is_integral()) {
        return repeat(values, b, a.as_integer());
    }
    return unsupported(op, a, b);
}

Result<Value> negate(const Value& value) {
    if (value.is_integral()) {
        return integer_arithmetic(Operator::kSubtract, 0, value.as_integer());
    }
    if (value.is(Kind::kFloat)) {
        return Value::real(-value.as_double());
    }
    if (value.is(Kind::kUndefined)) {
        return undefined_error(value);
    }
    return template_error("bad operand type for unary -: '" + type_name(value) + "'");
}

Status sort_values(const Values& values, std::vector<Value>& items, bool reverse) {
    // std::sort cannot stop at an error, so this is a merge sort. Equal items keep their order,
    // also when reversed, as Python promises.
    BALLAST_TRY_STATUS(values.heap().ensure(items.size(), sizeof(Value)));
    std::vector<Value> merged(items.size());
    for (std::size_t width = 1; width < items.size(); width *= 2) {
        for (std::size_t start = 0; start < items.size(); start += 2 * width) {
            const std::size_t middle = std::min(start + width, items.size());
            const std::size_t end = std::min(start + 2 * width, items.size());
            std::size_t left = start;
            std::size_t right = middle;
            for (std::size_t at = start; at < end; ++at) {
                bool take_right = left == middle;
                if (!take_right && right < end) {
                    const auto op = reverse ? Operator::kGreater : Operator::kLess;
                    // Items are [key, item] pairs; only keys are compared.
                    BALLAST_TRY(
                        take_right,
                        compare(values, op, items[right].items()[0], items[left].items()[0]));
                }
                merged[at] = items[take_right ? right++ : left++];
            }
        }
        std::swap(items, merged);
    }
    return {};
}

}  // namespace ballast::chat
