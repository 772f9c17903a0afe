// SPDX-License-Identifier: MIT
// Runs of bytes against a plain array, over random calls.
#include "engine/backend/byte_map.h"

#include <array>

#include <gtest/gtest.h>

#include "engine/base/rng.h"

namespace ballast::backend {
namespace {

constexpr std::size_t kSpace = 40;
using Plain = std::array<int, kSpace>;  // 0: no value

/// What the map says of each byte.
Plain contents(const ByteMap<int>& map, std::size_t begin, std::size_t end) {
    Plain values = {};
    std::size_t last = begin;
    map.each(begin, end, [&](std::uintptr_t from, std::uintptr_t to, int value) {
        EXPECT_LE(last, from);
        EXPECT_LT(from, to);
        EXPECT_LE(to, end);
        last = to;
        std::fill(values.begin() + static_cast<std::ptrdiff_t>(from),
                  values.begin() + static_cast<std::ptrdiff_t>(to),
                  value);
    });
    return values;
}

TEST(ByteMap, HoldsWhatAnArrayWould) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        Rng rng(seed);
        ByteMap<int> map;
        Plain plain = {};
        for (int call = 0; call < 200; ++call) {
            std::size_t begin = rng.below(kSpace + 1);
            std::size_t end = rng.below(kSpace + 1);
            if (begin > end) {
                std::swap(begin, end);
            }
            const int value = 1 + static_cast<int>(rng.below(3));
            switch (rng.below(4)) {
                case 0:
                    map.set(begin, end, value);
                    std::fill(&plain[0] + begin, &plain[0] + end, value);
                    break;
                case 1:
                    map.update(begin, end, [&](int& known) { known = known + value; });
                    for (std::size_t i = begin; i < end; ++i) {
                        plain[i] += value;
                    }
                    break;
                case 2:
                    map.erase(begin, end);
                    std::fill(&plain[0] + begin, &plain[0] + end, 0);
                    break;
                default:
                    map.erase_if([&](int known) { return known % 3 == value % 3; });
                    for (int& known : plain) {
                        known = known % 3 == value % 3 ? 0 : known;
                    }
            }
            ASSERT_EQ(contents(map, 0, kSpace), plain) << "seed " << seed << " call " << call;
            Plain part = plain;
            std::fill(&part[0], &part[0] + begin, 0);
            std::fill(&part[0] + end, &part[0] + kSpace, 0);
            ASSERT_EQ(contents(map, begin, end), part) << "seed " << seed << " call " << call;
        }
    }
}

TEST(ByteMap, JoinsEqualNeighbours) {
    ByteMap<int> map;
    for (std::size_t i = 0; i < 20; ++i) {
        map.set(2 * i, 2 * i + 1, 7);
    }
    EXPECT_EQ(map.n_runs(), 20U);
    for (std::size_t i = 0; i < 20; ++i) {
        map.set(2 * i + 1, 2 * i + 2, 7);
    }
    EXPECT_EQ(map.n_runs(), 1U);
    map.set(5, 6, 8);
    EXPECT_EQ(map.n_runs(), 3U);
}

}  // namespace
}  // namespace ballast::backend
