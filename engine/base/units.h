// SPDX-License-Identifier: MIT
// Sizes, and arithmetic on sizes that came from a file: it reports overflow instead of wrapping.
#pragma once

#include <cstdint>
#include <optional>

namespace ballast {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

/// a * b, or nothing if it does not fit 64 bits.
inline std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) {
    std::uint64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) {
        return std::nullopt;
    }
    return result;
}

/// The smallest multiple of step that is at least value; step > 0. The caller knows it fits.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
    return (value + step - 1) / step * step;
}

}  // namespace ballast
