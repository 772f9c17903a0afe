// SPDX-License-Identifier: MIT
#include "server/queue/admission.h"

#include <gtest/gtest.h>

namespace ballast::queue {
namespace {

using Kind = ContextVerdict::Kind;

TEST(Admission, GivesAnOpenReplyTheRestOfTheContext) {
    const auto verdict = Admission::check_context({10, -1, 100}, 0);
    EXPECT_EQ(verdict.kind, Kind::kFits);
    EXPECT_EQ(verdict.max_tokens, 90);
}

TEST(Admission, GivesAnOpenReplyTheDefaultWhereThatIsLess) {
    EXPECT_EQ(Admission::check_context({10, -1, 100}, 16).max_tokens, 16);
    EXPECT_EQ(Admission::check_context({95, -1, 100}, 16).max_tokens, 5);
}

TEST(Admission, TakesPromptAndReplyThatFillTheContextExactly) {
    const auto verdict = Admission::check_context({60, 40, 100}, 0);
    EXPECT_EQ(verdict.kind, Kind::kFits);
    EXPECT_EQ(verdict.max_tokens, 40);
    EXPECT_EQ(Admission::check_context({60, 41, 100}, 0).kind, Kind::kSumTooLong);
}

TEST(Admission, RefusesAPromptThatLeavesNoRoomForAReply) {
    EXPECT_EQ(Admission::check_context({99, -1, 100}, 0).kind, Kind::kFits);
    EXPECT_EQ(Admission::check_context({100, -1, 100}, 0).kind, Kind::kPromptTooLong);
    EXPECT_EQ(Admission::check_context({101, 1, 100}, 0).kind, Kind::kPromptTooLong);
}

TEST(Admission, TakesAFullPromptWhereNoReplyIsWanted) {
    EXPECT_EQ(Admission::check_context({100, 0, 100}, 0).kind, Kind::kFits);
    EXPECT_EQ(Admission::check_context({101, 0, 100}, 0).kind, Kind::kPromptTooLong);
}

TEST(Admission, AdmitsNothingAfterStop) {
    RequestQueue queue(4);
    const QueueOptions options;
    Admission admission(queue, options);
    EXPECT_TRUE(admission.submit({}).has_value());
    admission.stop();
    const Status status = admission.submit({});
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace ballast::queue
