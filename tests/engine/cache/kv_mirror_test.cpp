// SPDX-License-Identifier: MIT
// Copies on the host of a device's keys and values: complete but for the last rows of a block,
// never newer than what was overwritten, and within their memory.
#include "engine/cache/kv_mirror.h"

#include <cstring>

#include <gtest/gtest.h>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/host_backend.h"

namespace ballast::cache {
namespace {

constexpr int kBlocks = 6;
constexpr int kHeads = 3;
constexpr int kHeadDim = 16;
constexpr std::size_t kRowBytes = kHeadDim * 2;
// Two of the heads of layer 0 and all of layer 2 are on the device; a page has both.
constexpr std::uint64_t kPageBytes = 2ULL * (2 + 3) * 32 * kRowBytes;

class KvMirrorTest : public testing::Test {
  protected:
    KvMirrorTest() {
        const std::vector<KvPlacement> placements = {
            {.layer = 0, .n_heads = 2, .backend = &device_},
            {.layer = 0, .first_head = 2, .n_heads = 1, .backend = &cpu_},
            {.layer = 1, .n_heads = 3, .backend = &cpu_},
            {.layer = 2, .n_heads = 3, .backend = &device_}};
        cache_ = *KvCache::create(
            {.n_layers = 3, .n_kv_heads = kHeads, .head_dim = kHeadDim}, kBlocks, placements);
    }

    std::unique_ptr<KvMirror> mirror(std::uint64_t bytes_most = kBlocks * kPageBytes) {
        auto made = KvMirror::create({.cache = cache_.get(),
                                      .blocks = &pool_,
                                      .device = &device_,
                                      .host = &cpu_,
                                      .bytes_most = bytes_most});
        EXPECT_TRUE(made.has_value());
        return std::move(*made);
    }

    /// A step that writes these positions; each row gets bytes of its own, which `salt` changes.
    void step(KvMirror& mirror, const BlockTable& table, int first, int n, int salt = 0) {
        const backend::SequenceRows rows{
            .n_rows = n, .first_position = first, .blocks = table.blocks()};
        mirror.before(std::span(&rows, 1));
        for (int position = first; position < first + n; ++position) {
            const auto block = table.blocks()[static_cast<std::size_t>(position / 32)];
            for (const auto& layer : cache_->layers()) {
                for (const backend::KvRangeView& range : layer.ranges) {
                    fill(range, block, position % 32, salt);
                }
            }
        }
        mirror.note(std::span(&rows, 1));
    }

    static std::byte value(std::int32_t block, int row, int salt, bool is_key) {
        return static_cast<std::byte>(block * 32 + row + salt + (is_key ? 0 : 101));
    }
    static void fill(const backend::KvRangeView& range, std::int32_t block, int row, int salt) {
        for (int head = 0; head < range.n_heads; ++head) {
            const std::size_t at = static_cast<std::size_t>(block) * range.block_bytes +
                                   static_cast<std::size_t>(head) * range.head_bytes +
                                   static_cast<std::size_t>(row) * kRowBytes;
            std::memset(
                range.keys + at, static_cast<int>(value(block, row, salt, true)), kRowBytes);
            std::memset(
                range.values + at, static_cast<int>(value(block, row, salt, false)), kRowBytes);
        }
    }

    /// After finish(): how many rows of the block are there, each as it was written.
    int rows_restored(const KvMirror& mirror, std::int32_t block, int salt = 0) {
        for (const int layer : {0, 2}) {
            const std::size_t block_bytes = std::size_t{kHeads} * 32 * kRowBytes;
            std::vector<std::byte> keys(kBlocks * block_bytes);
            std::vector<std::byte> values(kBlocks * block_bytes);
            mirror.restore(layer,
                           {.n_heads = kHeads,
                            .keys = keys.data(),
                            .values = values.data(),
                            .block_bytes = block_bytes,
                            .head_bytes = 32 * kRowBytes});
            const int n_heads = layer == 0 ? 2 : 3;
            for (int head = 0; head < n_heads; ++head) {
                for (int row = 0; row < mirror.rows_of(block); ++row) {
                    const std::size_t at = static_cast<std::size_t>(block) * block_bytes +
                                           static_cast<std::size_t>(head * 32 + row) * kRowBytes;
                    EXPECT_EQ(keys[at], value(block, row, salt, true)) << row;
                    EXPECT_EQ(keys[at + kRowBytes - 1], value(block, row, salt, true)) << row;
                    EXPECT_EQ(values[at], value(block, row, salt, false)) << row;
                }
            }
        }
        return mirror.rows_of(block);
    }

    SystemClock clock_;
    ThreadPool threads_{1};
    const kernels::KernelTable& kernels_ = *kernels::find_kernels(Isa::kScalar);
    backend::CpuBackend cpu_{kernels_, threads_};
    std::uint64_t n_losses_ = 0;
    backend::HostBackend device_{
        kernels_, clock_, {.faults = {.delay_max = std::chrono::microseconds(50)}, .truth = [this] {
                               return backend::HostTruth{.left_bytes = 1ULL << 30U,
                                                         .n_losses = n_losses_};
                           }}};
    BlockPool pool_{kBlocks};
    std::unique_ptr<KvCache> cache_;
};

TEST_F(KvMirrorTest, HasAllRowsButTheLastOnesOfABlock) {
    BlockTable table(pool_, kBlocks);
    ASSERT_TRUE(table.grow(100).has_value());
    const auto mirror = this->mirror();
    step(*mirror, table, 0, 40);
    for (int position = 40; position < 71; ++position) {
        step(*mirror, table, position, 1);
    }
    mirror->finish();
    EXPECT_EQ(rows_restored(*mirror, table.blocks()[0]), 32);
    EXPECT_EQ(rows_restored(*mirror, table.blocks()[1]), 32);
    // Rows cross eight at a time.
    EXPECT_EQ(rows_restored(*mirror, table.blocks()[2]), 0);
    step(*mirror, table, 71, 1);
    mirror->finish();
    EXPECT_EQ(rows_restored(*mirror, table.blocks()[2]), 8);
}

TEST_F(KvMirrorTest, WhatIsWrittenAgainIsCopiedAgain) {
    BlockTable table(pool_, kBlocks);
    ASSERT_TRUE(table.grow(32).has_value());
    const std::int32_t block = table.blocks()[0];
    const auto mirror = this->mirror();
    step(*mirror, table, 0, 32);
    step(*mirror, table, 5, 1, 1);
    EXPECT_LE(mirror->rows_of(block), 5) << "the others are of the past";
    for (int position = 0; position < 32; ++position) {
        step(*mirror, table, position, 1, 2);
    }
    mirror->finish();
    EXPECT_EQ(rows_restored(*mirror, block, 2), 32);
}

TEST_F(KvMirrorTest, WhatBlocksHeldBeforeFollowsWithTheSteps) {
    BlockTable table(pool_, kBlocks);
    ASSERT_TRUE(table.grow(64).has_value());
    BlockTable other(pool_, kBlocks);
    ASSERT_TRUE(other.grow(32).has_value());
    for (int position = 0; position < 64; ++position) {
        for (const auto& layer : cache_->layers()) {
            for (const backend::KvRangeView& range : layer.ranges) {
                fill(range,
                     table.blocks()[static_cast<std::size_t>(position / 32)],
                     position % 32,
                     0);
            }
        }
    }
    const auto mirror = this->mirror();
    EXPECT_EQ(mirror->rows_of(table.blocks()[0]), 0);
    for (int position = 0; position < 8; ++position) {
        step(*mirror, other, position, 1);
    }
    mirror->finish();
    EXPECT_EQ(rows_restored(*mirror, table.blocks()[0]), 32);
    EXPECT_EQ(rows_restored(*mirror, table.blocks()[1]), 32);
    EXPECT_EQ(rows_restored(*mirror, other.blocks()[0]), 8);
}

TEST_F(KvMirrorTest, BlocksBeyondItsMemoryHaveNoCopyUntilOthersAreFree) {
    auto first = std::make_unique<BlockTable>(pool_, kBlocks);
    ASSERT_TRUE(first->grow(64).has_value());
    BlockTable second(pool_, kBlocks);
    ASSERT_TRUE(second.grow(32).has_value());
    const auto mirror = this->mirror(2 * kPageBytes + 1);
    EXPECT_EQ(mirror->total_bytes(), 2 * kPageBytes);
    step(*mirror, *first, 0, 64);
    step(*mirror, second, 0, 16);
    mirror->finish();
    EXPECT_EQ(rows_restored(*mirror, first->blocks()[1]), 32);
    EXPECT_EQ(mirror->rows_of(second.blocks()[0]), 0);
    first.reset();
    step(*mirror, second, 16, 8);
    mirror->finish();
    EXPECT_EQ(rows_restored(*mirror, second.blocks()[0]), 24);
}

TEST_F(KvMirrorTest, KeepsWhatHadArrivedWhenTheDeviceIsLost) {
    BlockTable table(pool_, kBlocks);
    ASSERT_TRUE(table.grow(64).has_value());
    const auto mirror = this->mirror();
    step(*mirror, table, 0, 32);
    mirror->finish();
    n_losses_ = 1;
    step(*mirror, table, 32, 32);
    mirror->finish();
    EXPECT_EQ(rows_restored(*mirror, table.blocks()[0]), 32);
    EXPECT_EQ(mirror->rows_of(table.blocks()[1]), 0);
}

}  // namespace
}  // namespace ballast::cache
