// SPDX-License-Identifier: MIT
// Texts out of files are made harmless before they reach a terminal.
#include "server/cli/report.h"

#include <gtest/gtest.h>

namespace ballast::cli {
namespace {

TEST(Printable, EscapesWhatSteersATerminal) {
    EXPECT_EQ(printable("a\x1B[2Jb\r\n\x7F", 100), "a\\x1B[2Jb\\x0D\\n\\x7F");
    EXPECT_EQ(printable("größe", 100), "größe");
}

TEST(Printable, CutsBetweenCharacters) {
    EXPECT_EQ(printable("abcdef", 3), "abc…");
    EXPECT_EQ(printable("abc", 3), "abc");
    EXPECT_EQ(printable("aöb", 2), "aö…");
}

TEST(FormatBytes, PicksTheUnit) {
    EXPECT_EQ(format_bytes(0), "0 bytes");
    EXPECT_EQ(format_bytes(999), "999 bytes");
    EXPECT_EQ(format_bytes(98'362'432), "98.4 MB");
    EXPECT_EQ(format_bytes(17'000'000'000), "17.0 GB");
}

}  // namespace
}  // namespace ballast::cli
