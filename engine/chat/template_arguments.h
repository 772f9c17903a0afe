// SPDX-License-Identifier: MIT
// Binds the arguments of a filter, test, method or function to its parameters.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "engine/chat/template_callable.h"

namespace ballast::chat {

class BoundArguments {
  public:
    static constexpr std::size_t kParametersMax = 6;

    /// Fails on surplus or unknown arguments, and when one of the first `required` is missing.
    /// Borrows the arguments.
    static Result<BoundArguments> bind(std::string_view callee,
                                       const Arguments& arguments,
                                       std::initializer_list<std::string_view> parameters,
                                       std::size_t required = 0);

    /// Null if not given.
    const Value* find(std::size_t parameter) const { return bound_[parameter]; }
    bool given(std::size_t parameter) const { return bound_[parameter] != nullptr; }
    /// Undefined if not given.
    Value value(std::size_t parameter) const {
        return given(parameter) ? *bound_[parameter] : Value();
    }
    bool truth(std::size_t parameter, bool fallback) const;
    /// None counts as not given.
    Result<std::int64_t> integer(std::size_t parameter, std::int64_t fallback) const;
    Result<std::string> text(std::size_t parameter, std::string_view fallback) const;

  private:
    std::string callee_;
    std::array<const Value*, kParametersMax> bound_{};
};

/// For what takes none.
Status expect_no_arguments(std::string_view callee, const Arguments& arguments);

}  // namespace ballast::chat
