// SPDX-License-Identifier: MIT
// What watches this build. A test whose work is all in its size may do less of it there.
#pragma once

namespace ballast::test {

#if defined(__has_feature)
#define BALLAST_HAS_FEATURE(name) __has_feature(name)  // clang
#else
#define BALLAST_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || BALLAST_HAS_FEATURE(address_sanitizer)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__) || BALLAST_HAS_FEATURE(thread_sanitizer)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

#undef BALLAST_HAS_FEATURE

constexpr bool kSanitized = kAddressSanitizer || kThreadSanitizer;

}  // namespace ballast::test
