// SPDX-License-Identifier: MIT
// Half and bfloat16 to float32 and back, in integer arithmetic: the same bits on every processor,
// and the bits that F16C instructions give (subnormals exact, ties to even, NaNs made quiet).
#pragma once

#include <bit>
#include <cstdint>

namespace ballast::quant {

/// half: s eeeee mmmmmmmmmm, bias 15. Exact.
inline float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
    const std::uint32_t exponent = (half >> 10) & 0x1FU;
    const std::uint32_t mantissa = half & 0x3FFU;
    if (exponent == 0x1F) {
        const std::uint32_t quiet = mantissa != 0 ? 0x400000U : 0U;
        return std::bit_cast<float>(sign | 0x7F800000U | quiet | (mantissa << 13));
    }
    if (exponent == 0) {
        // A subnormal is mantissa * 2^-24; the product of two such floats is exact.
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (mantissa << 13));
}

/// Rounds to the nearest half, ties to even; too large becomes infinity.
inline std::uint16_t float_to_half(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) {
        return static_cast<std::uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x3FFU));
    }
    if (magnitude >= 0x477FF000U) {  // 65520, halfway between the largest half and 2^16
        return static_cast<std::uint16_t>(sign | 0x7C00U);
    }
    if (magnitude < 0x38800000U) {  // below 2^-14: subnormal, a multiple of 2^-24
        // Adding 0.5, whose last bit is worth 2^-24, makes the addition itself round.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<std::uint16_t>(sign |
                                          (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
    }
    const std::uint32_t odd = (magnitude >> 13) & 1U;
    const std::uint32_t rounded = magnitude + 0xFFFU + odd - ((127U - 15U) << 23);
    return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

/// bfloat16 is the upper half of a float32. Exact; a NaN keeps its bits.
inline float bfloat16_to_float(std::uint16_t value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

/// Rounds to the nearest bfloat16, ties to even.
inline std::uint16_t float_to_bfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
        return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
    }
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace ballast::quant
