// SPDX-License-Identifier: MIT
#include "engine/base/utf8.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(Utf8, EncodesAndDecodesEveryCodePoint) {
    for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
        if (code_point >= 0xD800 && code_point <= 0xDFFF) {
            continue;
        }
        std::string text;
        utf8_append(text, code_point);
        const Utf8Step step = utf8_step(text);
        ASSERT_EQ(step.kind, Utf8Step::Kind::kValid) << std::hex << std::uint32_t{code_point};
        ASSERT_EQ(step.length, text.size());
        ASSERT_EQ(std::uint32_t{step.code_point}, std::uint32_t{code_point});
        for (std::size_t cut = 1; cut < text.size(); ++cut) {
            const Utf8Step part = utf8_step(std::string_view(text).substr(0, cut));
            ASSERT_EQ(part.kind, Utf8Step::Kind::kIncomplete);
            ASSERT_EQ(part.length, cut);
            ASSERT_EQ(utf8_incomplete_tail("x" + text.substr(0, cut)), cut);
        }
        ASSERT_EQ(utf8_incomplete_tail(text), 0U);
    }
}

TEST(Utf8, WritesTheReplacementForWhatIsNoCharacter) {
    std::string text;
    utf8_append(text, 0xD800);
    utf8_append(text, 0x110000);
    EXPECT_EQ(text, "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Utf8, KnowsBrokenBytes) {
    for (const char* broken : {"\x80",
                               "\xBF",
                               "\xC0\x80",
                               "\xC1\xBF",
                               "\xE0\x9F\xBF",
                               "\xED\xA0\x80",
                               "\xF0\x8F\xBF\xBF",
                               "\xF4\x90\x80\x80",
                               "\xF5\x80\x80\x80",
                               "\xFF",
                               "\xC3(",
                               "\xE2\x82("}) {
        EXPECT_EQ(utf8_step(broken).kind, Utf8Step::Kind::kInvalid) << broken;
        EXPECT_FALSE(utf8_is_valid(broken)) << broken;
        EXPECT_EQ(utf8_valid_prefix(std::string("ab") + broken), 2U) << broken;
    }
    EXPECT_TRUE(utf8_is_valid(""));
    EXPECT_TRUE(utf8_is_valid(std::string_view("\0", 1)));
}

// The examples of the Unicode Standard 15, tables 3-8 to 3-11; Python's errors="replace" agrees.
TEST(Utf8, ReplacesEachMaximalSubpartOnce) {
    const std::string r = "\xEF\xBF\xBD";
    EXPECT_EQ(utf8_replace_invalid("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
              r + r + r + r + r + r + r + r + "A");
    EXPECT_EQ(utf8_replace_invalid("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
              r + r + r + r + r + r + r + r + "A");
    EXPECT_EQ(utf8_replace_invalid("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
              r + r + r + r + r + "A" + r + r + "B");
    EXPECT_EQ(utf8_replace_invalid("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
    EXPECT_EQ(utf8_replace_invalid("ok \xE2\x82"), "ok " + r);
}

TEST(Utf8, FindsOnlyATailThatCanStillBecomeACharacter) {
    EXPECT_EQ(utf8_incomplete_tail(""), 0U);
    EXPECT_EQ(utf8_incomplete_tail("abc"), 0U);
    EXPECT_EQ(utf8_incomplete_tail("\x80\x80\x80\x80"), 0U);
    EXPECT_EQ(utf8_incomplete_tail("\xED\xA0"), 0U);  // a surrogate already
    EXPECT_EQ(utf8_incomplete_tail("\xFF"), 0U);
    EXPECT_EQ(utf8_incomplete_tail("\xFF\xF0\x9F\x98"), 3U);
}

}  // namespace
}  // namespace ballast
