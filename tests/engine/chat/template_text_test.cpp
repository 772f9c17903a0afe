// SPDX-License-Identifier: MIT
// Text search and code points against definitions.
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "engine/base/rng.h"
#include "engine/chat/template_search.h"
#include "engine/chat/template_text.h"

namespace ballast::chat {
namespace {

TEST(TextSearch, FindsWhatTheLibraryFindsInBothDirections) {
    Rng rng(7);
    std::size_t found = 0;
    for (int round = 0; round < 2000; ++round) {
        // Few letters and long needles, so that borders matter; half of them occur.
        std::string text;
        for (std::uint64_t i = 200 + rng.below(400); i > 0; --i) {
            text += rng.below(24) == 0 ? 'b' : 'a';
        }
        const std::size_t size = rng.below(2) == 0 ? 1 + rng.below(64) : 65 + rng.below(60);
        std::string needle = text.substr(rng.below(text.size() - size), size);
        if (rng.below(2) == 0) {
            needle[rng.below(size)] = 'c';
            text.insert(rng.below(text.size()), rng.below(2) == 0 ? needle : "");
        }
        const std::size_t from = rng.below(50);
        const std::size_t forward = TextSearch(needle).find(text, from);
        ASSERT_EQ(forward, text.find(needle, from)) << text << " " << needle;
        const std::size_t backward =
            TextSearch(needle, TextSearch::Direction::kBackward).find(text, from);
        ASSERT_EQ(backward, std::string_view(text).substr(0, text.size() - from).rfind(needle))
            << text << " " << needle;
        found += forward != std::string::npos ? 1 : 0;
    }
    EXPECT_GT(found, 500U);
}

TEST(TemplateText, CountsStrayBytesAsOneCodePointEach) {
    // Overlong, surrogate, beyond U+10FFFF, cut short, continuation alone.
    for (const std::string text :
         {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE4\xB8", "\x80"}) {
        EXPECT_EQ(count_code_points(text), text.size());
        EXPECT_FALSE(is_valid_utf8(text));
        EXPECT_EQ(code_point_at(text, 0), char32_t{0xFFFD});
        EXPECT_EQ(upper_text(text), text);
    }
    EXPECT_TRUE(is_valid_utf8("a\u00e9\u4e16\U0001F600\U0010FFFF"));
    EXPECT_EQ(count_code_points("a\u00e9\u4e16\U0001F600"), 4U);
}

TEST(TemplateText, EncodesEveryCodePointAsItDecodesIt) {
    for (char32_t c = 1; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 97) {
        if (c >= 0xD800 && c <= 0xDFFF) {
            continue;
        }
        std::string text;
        append_code_point(text, c);
        ASSERT_EQ(code_point_bytes(text, 0), text.size());
        ASSERT_EQ(code_point_at(text, 0), c);
    }
}

}  // namespace
}  // namespace ballast::chat
