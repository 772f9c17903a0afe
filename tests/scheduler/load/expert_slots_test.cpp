// SPDX-License-Identifier: MIT
#include "scheduler/load/expert_slots.h"

#include <array>

#include <gtest/gtest.h>

#include "engine/base/rng.h"

namespace ballast::scheduler {
namespace {

using Options = ExpertSlots::Options;

/// Two experts of a token: hot ones nine times of ten.
std::array<int, 2> draw(Rng& rng, int first_hot) {
    std::array<int, 2> experts = {};
    for (int& expert : experts) {
        const bool hot = rng.uniform() < 0.9;
        const int n = hot ? 8 : 56;
        const int drawn = static_cast<int>(rng.uniform() * n);
        expert = (first_hot + (hot ? drawn : 8 + drawn)) % 64;
    }
    if (experts[0] == experts[1]) {
        experts[1] = (experts[0] + 1) % 64;
    }
    return experts;
}

/// Share of hits over so many tokens.
double run(ExpertSlots& slots, Rng& rng, int first_hot, int n_tokens) {
    const std::uint64_t hits = slots.hits();
    for (int i = 0; i < n_tokens; ++i) {
        for (const ExpertSlots::Move& move : slots.use(draw(rng, first_hot), 2)) {
            slots.placed(move);
        }
    }
    return static_cast<double>(slots.hits() - hits) / (2.0 * n_tokens);
}

TEST(ExpertSlots, KeepTheHotOnesAndFollowThemWhenTheyChange) {
    for (const SlotRule rule : {SlotRule::kRecent, SlotRule::kFrequent}) {
        Rng rng(7);
        ExpertSlots slots(64, 12, {.rule = rule});
        run(slots, rng, 0, 500);
        EXPECT_GE(run(slots, rng, 0, 500), 0.75);
        run(slots, rng, 32, 1000);
        EXPECT_GE(run(slots, rng, 32, 500), 0.75);
    }
}

TEST(ExpertSlots, MoveLessWhereUsesAreCounted) {
    std::array<int, 2> n_moves = {};
    for (const SlotRule rule : {SlotRule::kRecent, SlotRule::kFrequent}) {
        Rng rng(7);
        ExpertSlots slots(64, 12, {.rule = rule});
        for (int i = 0; i < 2000; ++i) {
            for (const ExpertSlots::Move& move : slots.use(draw(rng, 0), 2)) {
                slots.placed(move);
                ++n_moves[static_cast<std::size_t>(rule)];
            }
        }
    }
    EXPECT_LT(2 * n_moves[1], n_moves[0]);
}

TEST(ExpertSlots, HoldEachExpertOnceAndNameTheOneThatLeaves) {
    ExpertSlots slots(4, 2, {.rule = SlotRule::kRecent});
    const auto place = [&](int expert) {
        const std::array<int, 1> experts = {expert};
        const auto moves = slots.use(experts, 1);
        for (const ExpertSlots::Move& move : moves) {
            slots.placed(move);
        }
        return moves;
    };
    EXPECT_EQ(place(0).size(), 1U);
    EXPECT_EQ(place(1).at(0).evicted, std::nullopt);
    EXPECT_EQ(place(0).size(), 0U) << "it is there";
    const auto moves = place(2);
    ASSERT_EQ(moves.size(), 1U);
    EXPECT_EQ(moves[0].evicted, 1) << "not used for longest";
    EXPECT_EQ(slots.slot_of(1), std::nullopt);
    EXPECT_EQ(slots.slot_of(2), moves[0].slot);
    EXPECT_EQ(slots.hits(), 1U);
    EXPECT_EQ(slots.misses(), 3U);
}

TEST(ExpertSlots, ChangeNothingBeforeAMoveHasHappened) {
    ExpertSlots slots(4, 2, {});
    const std::array<int, 2> experts = {0, 1};
    EXPECT_EQ(slots.use(experts, 1).size(), 1U) << "no more moves than are allowed";
    EXPECT_EQ(slots.use(experts, 2).size(), 2U);
    EXPECT_EQ(slots.slot_of(0), std::nullopt);
}

TEST(ExpertSlots, DropWhatIsInSlotsThatAreGone) {
    ExpertSlots slots(8, 4, {.rule = SlotRule::kRecent});
    const std::array<int, 4> experts = {0, 1, 2, 3};
    for (const ExpertSlots::Move& move : slots.use(experts, 4)) {
        slots.placed(move);
    }
    slots.resize(1);
    int n_there = 0;
    for (int expert = 0; expert < 8; ++expert) {
        n_there += slots.slot_of(expert) ? 1 : 0;
    }
    EXPECT_EQ(n_there, 1);
    slots.resize(0);
    EXPECT_TRUE(slots.use(experts, 4).empty());
    slots.resize(2);
    EXPECT_EQ(slots.use(experts, 4).size(), 2U);
}

}  // namespace
}  // namespace ballast::scheduler
