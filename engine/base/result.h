// SPDX-License-Identifier: MIT
// The one channel for recoverable failures: a value or an Error, never an exception.
// Messages are whole sentences that name the thing at fault and the remedy.
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace ballast {

/// What kind of failure it is. server/api/error_reply.cpp maps each to a status, in that one place.
enum class ErrorCode {
    kInvalidRequest,
    kNotFound,
    kTooLarge,
    kOverloaded,
    kCancelled,
    kCorruptFile,
    kUnsupported,
    kOutOfMemory,
    kDeviceLost,
    kTimeout,
    kIo,
    kInternal,
};

/// A failure and the sentence a person reads.
struct Error {
    ErrorCode code = ErrorCode::kInternal;
    std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

/// For functions that return nothing but may fail.
using Status = Result<void>;

/// Returns a failed Result of any T: `return fail(ErrorCode::kIo, "cannot open …");`
inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
    return tl::unexpected<Error>(Error{code, std::move(message)});
}

/// Passes an error up, with context before its message.
inline tl::unexpected<Error> fail_with_context(const std::string& context, Error error) {
    error.message.insert(0, context + ": ");
    return tl::unexpected<Error>(std::move(error));
}

}  // namespace ballast

#define BALLAST_CONCAT_INNER(a, b) a##b
#define BALLAST_CONCAT(a, b) BALLAST_CONCAT_INNER(a, b)
#define BALLAST_TRY_INNER(tmp, declaration, expression) \
    auto tmp = (expression);                            \
    if (!tmp) {                                         \
        return tl::unexpected(std::move(tmp).error());  \
    }                                                   \
    declaration = std::move(*tmp)

/// Declares a variable from a Result, or returns its error: BALLAST_TRY(auto x, f());
#define BALLAST_TRY(declaration, expression) \
    BALLAST_TRY_INNER(BALLAST_CONCAT(ballast_try_, __LINE__), declaration, expression)

/// The same for a Status: BALLAST_TRY_STATUS(f());
#define BALLAST_TRY_STATUS(expression)                                \
    do {                                                              \
        if (auto ballast_status = (expression); !ballast_status) {    \
            return tl::unexpected(std::move(ballast_status).error()); \
        }                                                             \
    } while (false)
