// SPDX-License-Identifier: MIT
#include "scheduler/load/expert_slots.h"

#include <array>
#include <span>
#include <vector>

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

/// One token that uses these.
void use(ExpertSlots& slots, int n_experts, std::span<const int> experts) {
    std::vector<std::uint32_t> uses(static_cast<std::size_t>(n_experts));
    for (const int expert : experts) {
        ++uses[static_cast<std::size_t>(expert)];
    }
    slots.count(uses, 1);
}

/// Makes at most so many moves at once and returns them.
std::vector<ExpertSlots::Move> move(ExpertSlots& slots, std::size_t moves_max) {
    std::vector<ExpertSlots::Move> moves;
    while (moves.size() < moves_max) {
        const auto best = slots.best_move();
        if (!best) {
            break;
        }
        slots.begin(*best);
        slots.placed(*best);
        moves.push_back(*best);
    }
    return moves;
}

/// Share of hits over so many tokens.
double run(ExpertSlots& slots, Rng& rng, int first_hot, int n_tokens, std::size_t* n_moves) {
    const std::uint64_t hits = slots.hits();
    for (int i = 0; i < n_tokens; ++i) {
        use(slots, 64, draw(rng, first_hot));
        const std::size_t moved = move(slots, 2).size();
        *n_moves += moved;
    }
    return static_cast<double>(slots.hits() - hits) / (2.0 * n_tokens);
}

TEST(ExpertSlots, KeepTheHotOnesAndFollowThemWhenTheyChange) {
    for (const SlotRule rule : {SlotRule::kRecent, SlotRule::kFrequent}) {
        Rng rng(7);
        std::size_t n_moves = 0;
        ExpertSlots slots(64, 12, {.rule = rule});
        run(slots, rng, 0, 500, &n_moves);
        EXPECT_GE(run(slots, rng, 0, 500, &n_moves), 0.75);
        run(slots, rng, 32, 1000, &n_moves);
        EXPECT_GE(run(slots, rng, 32, 500, &n_moves), 0.75);
    }
}

TEST(ExpertSlots, MoveLessWhereUsesAreCounted) {
    std::array<std::size_t, 2> n_moves = {};
    for (const SlotRule rule : {SlotRule::kRecent, SlotRule::kFrequent}) {
        Rng rng(7);
        ExpertSlots slots(64, 12, {.rule = rule});
        run(slots, rng, 0, 2000, &n_moves[static_cast<std::size_t>(rule)]);
    }
    EXPECT_LT(2 * n_moves[1], n_moves[0]);
}

TEST(ExpertSlots, HoldEachExpertOnceAndNameTheOneThatLeaves) {
    ExpertSlots slots(4, 2, {.rule = SlotRule::kRecent});
    const auto place = [&](int expert) {
        use(slots, 4, std::array{expert});
        return move(slots, 1);
    };
    EXPECT_EQ(place(0).size(), 1U);
    EXPECT_EQ(place(1).at(0).evicted, std::nullopt);
    EXPECT_EQ(place(0).size(), 0U) << "it is there";
    const auto moves = place(2);
    ASSERT_EQ(moves.size(), 1U);
    EXPECT_EQ(moves[0].evicted, 1) << "not used for longest";
    EXPECT_EQ(slots.slot_of(1), std::nullopt);
    EXPECT_EQ(slots.slot_of(2), moves[0].slot);
    EXPECT_EQ(slots.slots()[2], moves[0].slot);
    EXPECT_EQ(slots.hits(), 1U);
    EXPECT_EQ(slots.misses(), 3U);
}

TEST(ExpertSlots, CountAStepOfManyTokensLikeItsUses) {
    ExpertSlots slots(4, 1, {.half_life_tokens = 100.0});
    slots.count(std::array<std::uint32_t, 4>{5, 9, 0, 7}, 12);
    const auto moves = move(slots, 9);
    ASSERT_EQ(moves.size(), 1U) << "what is not used wants no slot, nor one that is used less";
    EXPECT_EQ(moves[0].expert, 1);
    EXPECT_EQ(slots.misses(), 21U);
    // Expert 3 must have used half as much again: after 100 tokens the 7 are 3.5 and the 9 are 4.5,
    // so that 3 more are not enough, and 4 are.
    slots.count(std::array<std::uint32_t, 4>{0, 0, 0, 3}, 100);
    EXPECT_EQ(slots.best_move(), std::nullopt);
    slots.count(std::array<std::uint32_t, 4>{0, 0, 0, 1}, 0);
    EXPECT_EQ(slots.best_move()->expert, 3);
}

TEST(ExpertSlots, CannotBeOverwhelmedByNumbers) {
    ExpertSlots slots(2, 1, {.half_life_tokens = 0.5});
    for (int i = 0; i < 1000; ++i) {
        slots.count(std::array<std::uint32_t, 2>{1, 2}, i % 3 == 0 ? 1'000'000'000'000 : 40);
        const auto best = slots.best_move();
        ASSERT_TRUE(best.has_value());
        EXPECT_EQ(best->expert, 1);
        EXPECT_LE(best->gain, 4.0);
    }
    slots.count(std::array<std::uint32_t, 2>{1, 0}, 1'000'000'000'000);
    EXPECT_EQ(slots.best_move()->expert, 0) << "the other one was used long ago";
}

TEST(ExpertSlots, MayHoldExpertsFromTheStart) {
    ExpertSlots slots(4, 2, {.rule = SlotRule::kRecent});
    slots.put(3, 0);
    slots.put(1, 1);
    EXPECT_EQ(slots.slot_of(3), 0);
    EXPECT_EQ(slots.expert_in(1), 1);
    EXPECT_EQ(slots.best_move(), std::nullopt) << "nobody was asked for";
    use(slots, 4, std::array{1});
    EXPECT_EQ(slots.hits(), 1U);
    use(slots, 4, std::array{0});
    const auto move = slots.best_move();
    ASSERT_TRUE(move.has_value());
    EXPECT_EQ(move->slot, 0);
    EXPECT_EQ(move->evicted, 3);
    slots.begin(*move);
    EXPECT_EQ(slots.expert_in(0), -1);
    slots.placed(*move);
    EXPECT_EQ(slots.expert_in(0), 0);
}

TEST(ExpertSlots, HoldNeitherExpertWhileAMoveGoesOn) {
    ExpertSlots slots(4, 1, {.rule = SlotRule::kRecent});
    use(slots, 4, std::array{0});
    move(slots, 1);
    use(slots, 4, std::array{1});
    const auto best = slots.best_move();
    ASSERT_TRUE(best.has_value());
    EXPECT_EQ(slots.slot_of(0), 0) << "nothing has begun";
    slots.begin(*best);
    EXPECT_EQ(slots.slot_of(0), std::nullopt);
    EXPECT_EQ(slots.slot_of(1), std::nullopt);
    use(slots, 4, std::array{2});
    EXPECT_EQ(slots.best_move(), std::nullopt) << "its slot is taken";
    slots.dropped(*best);
    EXPECT_EQ(slots.best_move()->expert, 2);
    EXPECT_EQ(slots.best_move()->evicted, std::nullopt);
}

TEST(ExpertSlots, DropWhatIsInSlotsThatAreGone) {
    ExpertSlots slots(8, 4, {.rule = SlotRule::kRecent});
    use(slots, 8, std::array{0, 1, 2, 3});
    EXPECT_EQ(move(slots, 9).size(), 4U);
    slots.resize(1);
    int n_there = 0;
    for (int expert = 0; expert < 8; ++expert) {
        n_there += slots.slot_of(expert) ? 1 : 0;
    }
    EXPECT_EQ(n_there, 1);
    slots.resize(0);
    EXPECT_EQ(slots.best_move(), std::nullopt);
    slots.resize(2);
    EXPECT_EQ(move(slots, 9).size(), 2U);
}

TEST(ExpertSlots, IgnoreTheEndOfAMoveWhoseSlotIsGone) {
    ExpertSlots slots(4, 1, {});
    use(slots, 4, std::array{3});
    const auto first = slots.best_move();
    slots.begin(*first);
    slots.resize(0);
    slots.placed(*first);
    EXPECT_EQ(slots.slot_of(3), std::nullopt);
    slots.resize(1);
    const auto second = slots.best_move();
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(second->expert, first->expert);
    slots.begin(*second);
    slots.placed(*first);
    EXPECT_EQ(slots.slot_of(3), std::nullopt) << "what the first one wrote was other memory";
    slots.placed(*second);
    EXPECT_EQ(slots.slot_of(3), 0);
}

}  // namespace
}  // namespace ballast::scheduler
