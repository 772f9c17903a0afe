// SPDX-License-Identifier: MIT
// Python's binding rules, as far as the built-in functions need them.
#include "engine/chat/template_arguments.h"

#include <algorithm>
#include <limits>

#include "engine/base/check.h"
#include "engine/chat/template_operators.h"

namespace ballast::chat {

Result<BoundArguments> BoundArguments::bind(std::string_view callee,
                                            const Arguments& arguments,
                                            std::initializer_list<std::string_view> parameters,
                                            std::size_t required) {
    BALLAST_CHECK(parameters.size() <= kParametersMax);
    BoundArguments bound;
    bound.callee_ = callee;
    if (arguments.positional.size() > parameters.size()) {
        return template_error(bound.callee_ + "() takes at most " +
                              std::to_string(parameters.size()) + " arguments");
    }
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
        bound.bound_[i] = &arguments.positional[i];
    }
    for (const auto& [name, value] : arguments.named) {
        const auto* place = std::find(parameters.begin(), parameters.end(), name);
        if (place == parameters.end()) {
            return template_error(bound.callee_ + "() has no argument '" + name.substr(0, 80) +
                                  "'");
        }
        const auto index = static_cast<std::size_t>(place - parameters.begin());
        if (bound.bound_[index] != nullptr) {
            return template_error(bound.callee_ + "() got the argument '" + name + "' twice");
        }
        bound.bound_[index] = &value;
    }
    for (std::size_t i = 0; i < required; ++i) {
        if (bound.bound_[i] == nullptr) {
            return template_error(bound.callee_ + "() lacks its argument '" +
                                  std::string(parameters.begin()[i]) + "'");
        }
    }
    return bound;
}

bool BoundArguments::truth(std::size_t parameter, bool fallback) const {
    return given(parameter) ? truthy(*bound_[parameter]) : fallback;
}

Result<std::int64_t> BoundArguments::integer(std::size_t parameter, std::int64_t fallback) const {
    const Value* value = bound_[parameter];
    if (value == nullptr || value->is(Kind::kNone)) {
        return fallback;
    }
    if (!value->is_integral()) {
        return template_error(callee_ + "() needs an integer, not " + type_name(*value));
    }
    const Integer low = std::numeric_limits<std::int64_t>::min();
    const Integer high = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(std::clamp(value->as_integer(), low, high));
}

Result<std::string> BoundArguments::text(std::size_t parameter, std::string_view fallback) const {
    const Value* value = bound_[parameter];
    if (value == nullptr) {
        return std::string(fallback);
    }
    if (!value->is(Kind::kString)) {
        return template_error(callee_ + "() needs a string, not " + type_name(*value));
    }
    return value->text();
}

Status expect_no_arguments(std::string_view callee, const Arguments& arguments) {
    if (!arguments.positional.empty() || !arguments.named.empty()) {
        return template_error(std::string(callee.substr(0, 80)) + "() takes no arguments");
    }
    return {};
}

}  // namespace ballast::chat
