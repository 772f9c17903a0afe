// SPDX-License-Identifier: MIT
// Assertions about our own code. They stay on in release builds; they never look at user input or
// at the contents of a file, which get an Error instead.
#pragma once

namespace ballast {

[[noreturn]] void check_failed(const char* expression, const char* file, int line);

/// Whether this build has BALLAST_DCHECK, and larger checks that only such builds can afford.
#ifdef NDEBUG
constexpr bool kDebugChecks = false;
#else
constexpr bool kDebugChecks = true;
#endif

}  // namespace ballast

#define BALLAST_CHECK(condition)                                     \
    do {                                                             \
        if (!(condition)) [[unlikely]] {                             \
            ::ballast::check_failed(#condition, __FILE__, __LINE__); \
        }                                                            \
    } while (false)

#ifdef NDEBUG
#define BALLAST_DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#else
#define BALLAST_DCHECK(condition) BALLAST_CHECK(condition)
#endif
