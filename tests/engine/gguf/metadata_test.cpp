// SPDX-License-Identifier: MIT
#include "engine/gguf/metadata.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ballast::gguf {
namespace {

Metadata with(Value value) {
    Metadata metadata;
    EXPECT_TRUE(metadata.insert("k", std::move(value)));
    return metadata;
}

/// Checks that a result is kCorruptFile and that its message names the key.
template <class T>
::testing::AssertionResult refused(const Result<T>& result) {
    if (result) {
        return ::testing::AssertionFailure() << "it was accepted";
    }
    if (result.error().code != ErrorCode::kCorruptFile) {
        return ::testing::AssertionFailure() << "the code is another";
    }
    if (result.error().message.find("the key k ") == std::string::npos &&
        result.error().message.find("the array k ") == std::string::npos) {
        return ::testing::AssertionFailure() << result.error().message;
    }
    return ::testing::AssertionSuccess();
}

TEST(Metadata, RefusesAKeyTwiceAndKeepsTheFirst) {
    Metadata metadata = with(std::uint64_t{1});
    EXPECT_FALSE(metadata.insert("k", std::uint64_t{2}));
    EXPECT_EQ(metadata.u32("k").value(), 1U);
    EXPECT_EQ(metadata.find("other"), nullptr);
}

TEST(Metadata, ConvertsIntegersInRange) {
    EXPECT_EQ(with(std::uint64_t{4294967295}).u32("k").value(), 4294967295U);
    EXPECT_EQ(with(std::int64_t{4294967295}).u32("k").value(), 4294967295U);
    EXPECT_EQ(with(std::int64_t{0}).u32("k").value(), 0U);
    EXPECT_TRUE(refused(with(std::uint64_t{4294967296}).u32("k")));
    EXPECT_TRUE(refused(with(std::int64_t{4294967296}).u32("k")));
    EXPECT_TRUE(refused(with(std::int64_t{-1}).u32("k")));
}

TEST(Metadata, RefusesOtherTypesWhetherOrNotThereIsAFallback) {
    const Metadata text = with(std::string_view("7"));
    EXPECT_TRUE(refused(text.u32("k")));
    EXPECT_TRUE(refused(text.u32_or("k", 1)));
    EXPECT_TRUE(refused(text.f32("k")));
    EXPECT_TRUE(refused(text.f32_or("k", 1.0F)));
    EXPECT_TRUE(refused(text.boolean_or("k", true)));
    EXPECT_TRUE(refused(text.strings("k")));
    EXPECT_TRUE(refused(text.integers("k")));
    EXPECT_TRUE(refused(text.integers_or_empty("k")));
    EXPECT_TRUE(refused(text.floats("k")));
    EXPECT_TRUE(refused(with(std::uint64_t{1}).string("k")));
    EXPECT_TRUE(refused(with(std::uint64_t{1}).string_or("k", "x")));
    EXPECT_TRUE(refused(with(std::uint64_t{1}).f32("k")));
    EXPECT_TRUE(refused(with(std::uint64_t{1}).boolean_or("k", true)));
    EXPECT_TRUE(refused(with(true).u32("k")));
    EXPECT_TRUE(refused(with(1.0).u32("k")));
}

TEST(Metadata, UsesTheFallbackOnlyWhenTheKeyIsAbsent) {
    const Metadata none;
    EXPECT_TRUE(refused(none.u32("k")));
    EXPECT_TRUE(refused(none.f32("k")));
    EXPECT_TRUE(refused(none.string("k")));
    EXPECT_TRUE(refused(none.strings("k")));
    EXPECT_TRUE(refused(none.integers("k")));
    EXPECT_TRUE(refused(none.floats("k")));
    EXPECT_EQ(none.u32_or("k", 5).value(), 5U);
    EXPECT_EQ(none.f32_or("k", 0.5F).value(), 0.5F);
    EXPECT_EQ(none.boolean_or("k", true).value(), true);
    EXPECT_EQ(none.string_or("k", "x").value(), "x");
    EXPECT_TRUE(none.integers_or_empty("k").value().empty());
    EXPECT_EQ(with(std::uint64_t{1}).u32_or("k", 5).value(), 1U);
    EXPECT_EQ(with(false).boolean_or("k", true).value(), false);
}

TEST(Metadata, NarrowsFloatsThatFit) {
    EXPECT_EQ(with(0.25).f32("k").value(), 0.25F);
    EXPECT_TRUE(std::isnan(with(std::nan("")).f32("k").value()));
    EXPECT_TRUE(std::isinf(with(std::numeric_limits<double>::infinity()).f32("k").value()));
    EXPECT_TRUE(refused(with(1e300).f32("k")));
}

TEST(Metadata, GivesArrays) {
    EXPECT_EQ(with(std::vector<std::uint64_t>{1, 2}).integers("k").value(),
              (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(with(std::vector<std::int64_t>{-1}).integers_or_empty("k").value(),
              (std::vector<std::int64_t>{-1}));
    EXPECT_TRUE(refused(with(std::vector<std::uint64_t>{1ULL << 63}).integers("k")));
    EXPECT_EQ(with(std::vector<float>{1.5F}).floats("k").value()[0], 1.5F);
    EXPECT_EQ(with(std::vector<std::string_view>{"a", "b"}).strings("k").value()[1], "b");
}

}  // namespace
}  // namespace ballast::gguf
