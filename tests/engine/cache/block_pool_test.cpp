// SPDX-License-Identifier: MIT
// Logical KV blocks: handed out once, shared by count, given back whole.
#include <algorithm>
#include <set>

#include "engine/base/rng.h"
#include "engine/cache/block_pool.h"

namespace ballast::cache {
namespace {

TEST(BlockPool, HandsEachBlockOutOnceAndRefusesWhenEmpty) {
    BlockPool pool(5);
    std::set<std::int32_t> seen;
    for (int i = 0; i < 5; ++i) {
        const auto block = pool.take();
        ASSERT_TRUE(block.has_value());
        EXPECT_TRUE(seen.insert(*block).second);
        EXPECT_EQ(pool.references(*block), 1);
    }
    EXPECT_EQ(pool.n_used(), 5);
    const auto none = pool.take();
    ASSERT_FALSE(none.has_value());
    EXPECT_EQ(none.error().code, ErrorCode::kOverloaded);
}

TEST(BlockPool, FreesASharedBlockWithItsLastReference) {
    BlockPool pool(1);
    const std::int32_t block = *pool.take();
    pool.share(block);
    pool.release(block);
    EXPECT_EQ(pool.n_used(), 1);
    EXPECT_FALSE(pool.take().has_value());
    pool.release(block);
    EXPECT_EQ(pool.n_used(), 0);
    EXPECT_TRUE(pool.take().has_value());
}

TEST(BlockPool, NoticesAReleaseTooMany) {
    BlockPool pool(1);
    const std::int32_t block = *pool.take();
    pool.release(block);
    EXPECT_DEATH(pool.release(block), "references");
}

TEST(BlockTable, GrowsByWholeBlocksAndGivesThemBack) {
    BlockPool pool(4);
    {
        BlockTable table(pool, 4);
        ASSERT_TRUE(table.grow(1).has_value());
        EXPECT_EQ(table.blocks().size(), 1U);
        ASSERT_TRUE(table.grow(32).has_value());
        EXPECT_EQ(table.blocks().size(), 1U);
        ASSERT_TRUE(table.grow(33).has_value());
        EXPECT_EQ(table.blocks().size(), 2U);
        EXPECT_FALSE(table.grow(129).has_value());
        EXPECT_EQ(pool.n_used(), 4);
    }
    EXPECT_EQ(pool.n_used(), 0);
}

TEST(BlockTable, SharesAPrefixUntilBothAreGone) {
    BlockPool pool(4);
    BlockTable second(pool, 4);
    {
        BlockTable first(pool, 4);
        ASSERT_TRUE(first.grow(64).has_value());
        second.share_prefix(first, 2);
        EXPECT_TRUE(
            std::equal(first.blocks().begin(), first.blocks().end(), second.blocks().begin()));
        ASSERT_TRUE(second.grow(96).has_value());
        EXPECT_EQ(pool.n_used(), 3);
    }
    EXPECT_EQ(pool.n_used(), 3);
    second.clear();
    EXPECT_EQ(pool.n_used(), 0);
}

TEST(BlockTable, KeepsTheBooksRightOverRandomUse) {
    Rng rng(3);
    BlockPool pool(24);
    std::vector<std::unique_ptr<BlockTable>> tables;
    for (int step = 0; step < 5000; ++step) {
        const auto action = rng.below(4);
        if (action == 0 && tables.size() < 8) {
            tables.push_back(std::make_unique<BlockTable>(pool, 24));
            if (tables.size() > 1) {
                const BlockTable& donor = *tables[rng.below(tables.size() - 1)];
                tables.back()->share_prefix(donor,
                                            static_cast<int>(rng.below(donor.blocks().size() + 1)));
            }
        } else if (action == 1 && !tables.empty()) {
            tables.erase(tables.begin() + static_cast<std::ptrdiff_t>(rng.below(tables.size())));
        } else if (!tables.empty()) {
            BlockTable& table = *tables[rng.below(tables.size())];
            static_cast<void>(
                table.grow(static_cast<std::int64_t>(32 * table.blocks().size() + rng.below(70))));
        }
        std::multiset<std::int32_t> held;
        for (const auto& table : tables) {
            held.insert(table->blocks().begin(), table->blocks().end());
        }
        const std::set<std::int32_t> distinct(held.begin(), held.end());
        ASSERT_EQ(pool.n_used(), static_cast<int>(distinct.size()));
        for (const std::int32_t block : distinct) {
            ASSERT_EQ(pool.references(block), static_cast<int>(held.count(block)));
        }
    }
}

TEST(BlockPool, TellsTheRunsInUse) {
    BlockPool pool(6);
    EXPECT_TRUE(pool.used().empty());
    for (int i = 0; i < 6; ++i) {
        ASSERT_TRUE(pool.take().has_value());
    }
    ASSERT_EQ(pool.used().size(), 1U);
    EXPECT_EQ(pool.used()[0].n, 6);
    pool.release(0);
    pool.release(3);
    ASSERT_EQ(pool.used().size(), 2U);
    EXPECT_EQ(pool.used()[0].first, 1);
    EXPECT_EQ(pool.used()[0].n, 2);
    EXPECT_EQ(pool.used()[1].first, 4);
    EXPECT_EQ(pool.used()[1].n, 2);
}

}  // namespace
}  // namespace ballast::cache
