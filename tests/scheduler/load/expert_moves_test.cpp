// SPDX-License-Identifier: MIT
#include "scheduler/load/expert_moves.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/rng.h"

namespace ballast::scheduler {
namespace {

constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
using Uses = std::array<std::uint32_t, 4>;

TEST(ExpertMoves, TakeTheLayerThatGainsMostForItsBytes) {
    const std::vector<ExpertLayer> layers = {
        {.n_experts = 4, .n_slots = 1, .expert_bytes = 100},
        {},
        {.n_experts = 4, .n_slots = 1, .expert_bytes = 50},
    };
    ExpertMoves moves(layers, {});
    moves.count(0, Uses{5, 0, 0, 0}, 8);
    moves.count(2, Uses{0, 0, 0, 3}, 8);
    moves.allow(kAll);
    const auto first = moves.next();
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(first->layer, 2) << "3 uses of 50 bytes are worth more than 5 of 100";
    EXPECT_EQ(first->of.expert, 3);
    EXPECT_EQ(first->bytes, 50U);
    const auto second = moves.next();
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(second->layer, 0);
    EXPECT_EQ(moves.next(), std::nullopt);
    EXPECT_EQ(moves.n_in_flight(), 2);
    EXPECT_EQ(moves.layer(0).slot_of(0), std::nullopt) << "on its way";
    moves.placed(*second);
    moves.dropped(*first);
    EXPECT_EQ(moves.layer(0).slot_of(0), 0);
    EXPECT_EQ(moves.layer(2).slot_of(3), std::nullopt);
    EXPECT_EQ(moves.n_in_flight(), 0);
    EXPECT_EQ(moves.n_placed(), 1U);
}

TEST(ExpertMoves, KeepToWhatMayCrossAndSaveForALargeOne) {
    const std::vector<ExpertLayer> layers = {
        {.n_experts = 4, .n_slots = 4, .expert_bytes = 100},
        {.n_experts = 4, .n_slots = 4, .expert_bytes = 10},
    };
    ExpertMoves moves(layers, {});
    moves.count(0, Uses{90, 0, 0, 0}, 100);
    moves.count(1, Uses{1, 1, 1, 1}, 100);
    EXPECT_EQ(moves.next(), std::nullopt) << "nothing is allowed yet";
    for (int i = 0; i < 3; ++i) {
        moves.allow(30);
        EXPECT_EQ(moves.next(), std::nullopt) << "the small ones would keep the large one out";
    }
    moves.allow(30);
    EXPECT_EQ(moves.next()->layer, 0);
    EXPECT_EQ(moves.next(), std::nullopt) << "100 of at most 100 are spent";
    moves.allow(25);
    EXPECT_EQ(moves.next()->layer, 1);
    EXPECT_EQ(moves.next()->layer, 1);
    EXPECT_EQ(moves.next(), std::nullopt);
}

TEST(ExpertMoves, SaveNoMoreThanOneMoveNeeds) {
    const std::vector<ExpertLayer> layers = {{.n_experts = 4, .n_slots = 4, .expert_bytes = 10}};
    ExpertMoves moves(layers, {});
    for (int i = 0; i < 100; ++i) {
        moves.allow(5);
    }
    moves.allow(1000);
    moves.allow(5);
    moves.count(0, Uses{1, 1, 1, 1}, 1);
    EXPECT_TRUE(moves.next().has_value());
    EXPECT_EQ(moves.next(), std::nullopt) << "idle steps saved up for a burst";
}

TEST(ExpertMoves, HaveSoManyInFlightAndNoMore) {
    const std::vector<ExpertLayer> layers = {{.n_experts = 4, .n_slots = 4, .expert_bytes = 10}};
    ExpertMoves moves(layers, {.in_flight_max = 2});
    moves.count(0, Uses{1, 1, 1, 1}, 1);
    moves.allow(kAll);
    const auto first = moves.next();
    ASSERT_TRUE(first.has_value() && moves.next().has_value());
    EXPECT_EQ(moves.next(), std::nullopt);
    moves.placed(*first);
    EXPECT_TRUE(moves.next().has_value());
}

TEST(ExpertMoves, LetAMoveEndWhoseSlotIsGone) {
    const std::vector<ExpertLayer> layers = {{.n_experts = 4, .n_slots = 2, .expert_bytes = 10}};
    ExpertMoves moves(layers, {});
    moves.count(0, Uses{1, 0, 0, 0}, 1);
    moves.allow(kAll);
    const auto move = moves.next();
    ASSERT_TRUE(move.has_value());
    moves.resize(0, 0);
    moves.placed(*move);
    EXPECT_EQ(moves.n_in_flight(), 0);
    EXPECT_EQ(moves.layer(0).slot_of(0), std::nullopt);
    EXPECT_EQ(moves.n_placed(), 0U);
}

/// Four of the hot sixteen for nine tokens of ten, of 64 experts in each of eight layers.
class Trace {
  public:
    void step(ExpertMoves& moves, int first_hot) {
        for (int layer = 0; layer < moves.n_layers(); ++layer) {
            std::array<std::uint32_t, 64> uses = {};
            for (int rank = 0; rank < 4; ++rank) {
                const auto n = rng_.uniform() < 0.9 ? 16U : 64U;
                ++uses[(static_cast<std::size_t>(first_hot + layer) + rng_.below(n)) % 64];
            }
            moves.count(layer, uses, 1);
        }
    }

  private:
    Rng rng_{11};
};

// The bound. 16 hot experts of 8 layers are 128 moves; two cross a step, which is 64 steps. An
// expert that was hot is worth at most 4·0.9/16·256/ln 2 = 83 uses; a new one gains 0.225 a step
// and must reach 1.5 times what the old one has left: 83·1.5·2^(−t/256) = 83·(1 − 2^(−t/256)) at
// 2^(−t/256) = 0.4, t = 338 steps. So 402 steps, and as many again for the luck of the draw.
TEST(ExpertMoves, FollowATraceThatChangesItsHotExpertsWithinABoundedNumberOfSteps) {
    const std::vector<ExpertLayer> layers(8,
                                          {.n_experts = 64, .n_slots = 20, .expert_bytes = 1000});
    ExpertMoves moves(layers, {});
    Trace trace;
    const auto n_hot_there = [&](int first_hot) {
        int n = 0;
        for (int layer = 0; layer < 8; ++layer) {
            for (int i = 0; i < 16; ++i) {
                n += moves.layer(layer).slot_of((first_hot + layer + i) % 64) ? 1 : 0;
            }
        }
        return n;
    };
    const auto run = [&](int first_hot, int n_steps) {
        for (int i = 0; i < n_steps; ++i) {
            trace.step(moves, first_hot);
            moves.allow(2000);
            int n = 0;
            while (const auto move = moves.next()) {
                moves.placed(*move);
                ++n;
            }
            EXPECT_LE(n, 2);
        }
    };
    run(0, 804);
    EXPECT_EQ(n_hot_there(0), 128);
    run(32, 804);
    EXPECT_EQ(n_hot_there(32), 128);
    const std::uint64_t n_placed = moves.n_placed();
    run(32, 2000);
    EXPECT_EQ(n_hot_there(32), 128);
    // The four slots of a layer that are left go round among the 48 cold ones, which is to be rare.
    EXPECT_LE(moves.n_placed() - n_placed, 2000U / 4);
}

}  // namespace
}  // namespace ballast::scheduler
