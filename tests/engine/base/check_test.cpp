// SPDX-License-Identifier: MIT
#include "engine/base/check.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(CheckDeathTest, EndsTheProcessAndNamesTheExpression) {
    EXPECT_DEATH(BALLAST_CHECK(1 + 1 == 3), "1 \\+ 1 == 3");
}

TEST(Check, LetsTrueConditionsPass) {
    int evaluated = 0;
    BALLAST_CHECK(++evaluated == 1);
    EXPECT_EQ(evaluated, 1);
}

}  // namespace
}  // namespace ballast
