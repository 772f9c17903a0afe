// SPDX-License-Identifier: MIT
// Conversions are compared over all halves with arithmetic in double, which is exact here.
#include "engine/quant/float16.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace ballast::quant {
namespace {

constexpr std::uint32_t kInfinity = 0x7C00;

// The value of a finite half by its definition.
double value_of(std::uint32_t half) {
    const int exponent = static_cast<int>((half >> 10) & 0x1F);
    const int mantissa = static_cast<int>(half & 0x3FF);
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint16_t bits16(std::uint32_t value) {
    return static_cast<std::uint16_t>(value);
}

TEST(Float16, ExpandsEveryFiniteHalfExactly) {
    for (std::uint32_t half = 0; half <= 0xFFFF; ++half) {
        if ((half & kInfinity) == kInfinity) {
            continue;
        }
        const float value = half_to_float(bits16(half));
        ASSERT_EQ(static_cast<double>(value), value_of(half)) << half;
        ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << half;
    }
}

TEST(Float16, ExpandsInfinitiesAndMakesNansQuiet) {
    EXPECT_EQ(half_to_float(0x7C00), std::numeric_limits<float>::infinity());
    EXPECT_EQ(half_to_float(0xFC00), -std::numeric_limits<float>::infinity());
    EXPECT_EQ(std::bit_cast<std::uint32_t>(half_to_float(0x7E01)), 0x7FC02000U);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(half_to_float(0xFC01)), 0xFFC02000U);
}

TEST(Float16, RoundTripsEveryHalf) {
    for (std::uint32_t half = 0; half <= 0xFFFF; ++half) {
        const bool nan = (half & kInfinity) == kInfinity && (half & 0x3FF) != 0;
        const std::uint32_t expected = nan ? half | 0x200 : half;
        ASSERT_EQ(float_to_half(half_to_float(bits16(half))), expected) << half;
    }
}

TEST(Float16, RoundsBetweenEveryTwoNeighboursToTheNearestAndTiesToEven) {
    for (std::uint32_t low = 0; low < kInfinity; ++low) {
        const double above = low + 1 == kInfinity ? 65536.0 : value_of(low + 1);
        const auto middle = static_cast<float>((value_of(low) + above) / 2);
        const std::uint32_t even = (low & 1) == 0 ? low : low + 1;
        ASSERT_EQ(float_to_half(middle), even) << low;
        ASSERT_EQ(float_to_half(-middle), even | 0x8000) << low;
        ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0F)), low) << low;
        ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9F)), low + 1) << low;
    }
}

TEST(Float16, TurnsWhatIsTooLargeIntoInfinityAndTooSmallIntoZero) {
    EXPECT_EQ(float_to_half(1e9F), 0x7C00);
    EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), 0xFC00);
    EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0x0000);
    EXPECT_EQ(float_to_half(-1e-30F), 0x8000);
    EXPECT_EQ(float_to_half(std::numeric_limits<float>::quiet_NaN()) & 0x7E00, 0x7E00);
}

TEST(Bfloat16, IsTheUpperHalfOfAFloat) {
    EXPECT_EQ(bfloat16_to_float(0x3F80), 1.0F);
    EXPECT_EQ(bfloat16_to_float(0xC049), -3.140625F);
    EXPECT_EQ(bfloat16_to_float(0x0001), std::ldexp(1.0F, -133));
}

TEST(Bfloat16, RoundsToTheNearestAndTiesToEven) {
    EXPECT_EQ(float_to_bfloat16(1.0F), 0x3F80);
    EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3F808000U)), 0x3F80);
    EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3F818000U)), 0x3F82);
    EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
    EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7F80);
    EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x7F800001U)), 0x7FC0);
}

}  // namespace
}  // namespace ballast::quant
