// SPDX-License-Identifier: MIT
#include "engine/base/result.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace ballast {
namespace {

Result<int> half(int value) {
    if (value % 2 != 0) {
        return fail(ErrorCode::kInvalidRequest, std::to_string(value) + " is odd");
    }
    return value / 2;
}

Result<std::string> quarter(int value, int& steps) {
    BALLAST_TRY(const int once, half(value));
    ++steps;
    BALLAST_TRY(const int twice, half(once));
    ++steps;
    return std::to_string(twice);
}

Status even(int value) {
    BALLAST_TRY(const int ignored, half(value));
    static_cast<void>(ignored);
    return {};
}

Status both_even(int first, int second) {
    BALLAST_TRY_STATUS(even(first));
    BALLAST_TRY_STATUS(even(second));
    return {};
}

TEST(Result, TryGoesOnWithAValue) {
    int steps = 0;
    EXPECT_EQ(quarter(12, steps).value(), "3");
    EXPECT_EQ(steps, 2);
    EXPECT_TRUE(both_even(2, 4));
}

TEST(Result, TryReturnsTheFirstError) {
    int steps = 0;
    const auto result = quarter(6, steps);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, "3 is odd");
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidRequest);
    EXPECT_EQ(steps, 1);
    EXPECT_EQ(both_even(2, 5).error().message, "5 is odd");
    EXPECT_EQ(both_even(7, 5).error().message, "7 is odd");
}

TEST(Result, TryMovesValuesThatCannotBeCopied) {
    const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
    const auto use = [&]() -> Result<int> {
        BALLAST_TRY(const std::unique_ptr<int> owned, make());
        return *owned;
    };
    EXPECT_EQ(use().value(), 5);
}

TEST(Result, ContextComesBeforeTheMessage) {
    const tl::unexpected<Error> error =
        fail_with_context("cannot start", Error{ErrorCode::kIo, "the port is taken"});
    EXPECT_EQ(error.value().message, "cannot start: the port is taken");
    EXPECT_EQ(error.value().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace ballast
