// SPDX-License-Identifier: MIT
#include "engine/base/aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(AlignedBuffer, IsZeroFilledAndStandsOnACacheLine) {
    for (const std::size_t count : {1U, 3U, 16U, 1000U}) {
        const AlignedBuffer<float> buffer(count);
        ASSERT_EQ(buffer.size(), count);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
        EXPECT_TRUE(std::all_of(
            buffer.span().begin(), buffer.span().end(), [](float x) { return x == 0.0F; }));
    }
}

TEST(AlignedBuffer, MovesItsMemory) {
    AlignedBuffer<int> first(4);
    first[2] = 7;
    const int* memory = first.data();
    const AlignedBuffer<int> second = std::move(first);
    EXPECT_EQ(second.data(), memory);
    EXPECT_EQ(second[2], 7);
}

}  // namespace
}  // namespace ballast
