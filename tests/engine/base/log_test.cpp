// SPDX-License-Identifier: MIT
#include "engine/base/log.h"

#include <string>

#include <gtest/gtest.h>

namespace ballast {
namespace {

/// What a call writes to stderr, with the log's settings put back afterwards.
template <class Call>
std::string written(Call call) {
    ::testing::internal::CaptureStderr();
    call();
    std::string text = ::testing::internal::GetCapturedStderr();
    set_log_level(LogLevel::kInfo);
    set_log_journal(false);
    return text;
}

TEST(Log, WritesOneLineWithItsLevel) {
    EXPECT_EQ(written([] { log_warning("slot {} of {}", 3, 4); }),
              "ballast warning: slot 3 of 4\n");
    EXPECT_EQ(written([] { log_error("no"); }), "ballast error: no\n");
    EXPECT_EQ(written([] { log_info("yes"); }), "ballast info: yes\n");
}

TEST(Log, KeepsTextOfOthersOnOneLine) {
    EXPECT_EQ(written([] { log_info("{}", "a\nballast error: b\r\nc"); }),
              "ballast info: a ballast error: b  c\n");
}

TEST(Log, LeavesOutWhatIsBelowTheLevel) {
    EXPECT_EQ(written([] { log_debug("x"); }), "");
    EXPECT_EQ(written([] {
                  set_log_level(LogLevel::kDebug);
                  log_debug("x");
              }),
              "ballast debug: x\n");
    EXPECT_EQ(written([] {
                  set_log_level(LogLevel::kError);
                  log_warning("x");
                  log_error("y");
              }),
              "ballast error: y\n");
}

TEST(Log, GivesPrioritiesToTheJournal) {
    EXPECT_EQ(written([] {
                  set_log_journal(true);
                  set_log_level(LogLevel::kDebug);
                  log_debug("d");
                  log_info("i");
                  log_warning("w");
                  log_error("e");
              }),
              "<7>d\n<6>i\n<4>w\n<3>e\n");
}

}  // namespace
}  // namespace ballast
