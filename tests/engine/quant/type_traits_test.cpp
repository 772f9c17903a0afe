// SPDX-License-Identifier: MIT
#include "engine/quant/type_traits.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

namespace ballast::quant {
namespace {

TEST(TypeTraits, FindsEachTypeByItsNumber) {
    for (const TypeTraits& row : all_types()) {
        EXPECT_EQ(find_type(static_cast<std::uint32_t>(row.type)), &row) << row.name;
        EXPECT_EQ(&traits(row.type), &row) << row.name;
    }
}

TEST(TypeTraits, HasEachNameAndNumberOnce) {
    std::set<std::string_view> names;
    std::set<QuantType> types;
    for (const TypeTraits& row : all_types()) {
        names.insert(row.name);
        types.insert(row.type);
    }
    EXPECT_EQ(all_types().size(), 16U);
    EXPECT_EQ(names.size(), all_types().size());
    EXPECT_EQ(types.size(), all_types().size());
}

TEST(TypeTraits, DoesNotFindNumbersThatAreNoType) {
    for (const std::uint32_t number : {4U, 5U, 31U, 32U, 33U, 999U, 0xFFFFFFFFU}) {
        EXPECT_EQ(find_type(number), nullptr) << number;
    }
}

TEST(TypeTraits, CountsTheBytesOfARow) {
    EXPECT_EQ(row_bytes(QuantType::kF32, 5), 20U);
    EXPECT_EQ(row_bytes(QuantType::kQ4_1, 64), 40U);
    EXPECT_EQ(row_bytes(QuantType::kQ6_K, 512), 420U);
}

}  // namespace
}  // namespace ballast::quant
