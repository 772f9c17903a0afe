// SPDX-License-Identifier: MIT
#include "scheduler/load/pauses.h"

#include <gtest/gtest.h>

namespace ballast::scheduler {
namespace {

using std::chrono_literals::operator""s;

TEST(Pauses, LastUntilSomebodyResumes) {
    Pauses pauses;
    EXPECT_FALSE(pauses.paused(0s));
    pauses.pause();
    EXPECT_TRUE(pauses.paused(0s));
    EXPECT_TRUE(pauses.paused(1000000s));
    pauses.resume();
    EXPECT_FALSE(pauses.paused(1000000s));
}

TEST(Pauses, AHolderThatDoesNotComeBackIsForgotten) {
    Pauses pauses;
    EXPECT_TRUE(*pauses.hold("game", 0s, 10s));
    EXPECT_TRUE(pauses.paused(9s));
    EXPECT_TRUE(*pauses.hold("game", 9s, 19s));
    EXPECT_TRUE(pauses.paused(18s));
    EXPECT_FALSE(pauses.paused(19s));
}

TEST(Pauses, EndWithTheLastOfSeveralHolders) {
    Pauses pauses;
    EXPECT_TRUE(*pauses.hold("a", 0s, 10s));
    EXPECT_TRUE(*pauses.hold("b", 0s, 20s));
    pauses.let_go("b");
    EXPECT_TRUE(pauses.paused(5s));
    EXPECT_FALSE(pauses.paused(10s));
    pauses.pause();
    pauses.let_go("a");
    EXPECT_TRUE(pauses.paused(5s)) << "a person's pause is not a holder's to end";
}

TEST(Pauses, ResumeEndsAHolderForGood) {
    Pauses pauses;
    EXPECT_TRUE(*pauses.hold("game", 0s, 10s));
    pauses.resume();
    EXPECT_FALSE(pauses.paused(1s));
    EXPECT_FALSE(*pauses.hold("game", 3s, 13s));
    EXPECT_FALSE(pauses.paused(4s));
    EXPECT_TRUE(*pauses.hold("other", 3s, 13s));
    EXPECT_TRUE(pauses.paused(4s));
}

TEST(Pauses, HaveABoundAndForgetThoseWhoseTimeIsOver) {
    Pauses pauses;
    for (std::size_t i = 0; i < Pauses::kHoldersMax; ++i) {
        EXPECT_TRUE(*pauses.hold(std::to_string(i), 0s, 10s));
    }
    EXPECT_EQ(pauses.hold("more", 5s, 15s).error().code, ErrorCode::kOverloaded);
    EXPECT_TRUE(*pauses.hold("7", 5s, 15s)) << "it is there already";
    EXPECT_TRUE(*pauses.hold("more", 10s, 20s));
}

TEST(Pauses, TellOfEveryChange) {
    Pauses pauses;
    int n_told = 0;
    pauses.set_listener([&] { ++n_told; });
    pauses.pause();
    pauses.resume();
    EXPECT_TRUE(*pauses.hold("a", 0s, 1s));
    pauses.let_go("a");
    EXPECT_EQ(n_told, 4);
}

}  // namespace
}  // namespace ballast::scheduler
