// SPDX-License-Identifier: MIT
// Physical KV storage: every (block, head) has bytes of its own, whatever the ranges.
#include <cstring>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/host_backend.h"
#include "engine/cache/kv_cache.h"

namespace ballast::cache {
namespace {

class KvCacheTest : public testing::Test {
  protected:
    ThreadPool pool_{1};
    backend::CpuBackend backend_{*kernels::find_kernels(Isa::kScalar), pool_};
};

TEST_F(KvCacheTest, GivesEveryHeadOfEveryBlockItsOwnBytes) {
    const KvShape shape{
        .n_layers = 2, .n_kv_heads = 3, .head_dim = 16, .type = kernels::KvType::kF16};
    const std::vector<KvPlacement> placements = {
        {.layer = 0, .first_head = 0, .n_heads = 3, .backend = &backend_},
        {.layer = 1, .first_head = 0, .n_heads = 1, .backend = &backend_},
        {.layer = 1, .first_head = 1, .n_heads = 2, .backend = &backend_}};
    const auto cache = KvCache::create(shape, 4, placements);
    ASSERT_TRUE(cache.has_value()) << cache.error().message;
    ASSERT_EQ((*cache)->layers().size(), 2U);
    EXPECT_EQ((*cache)->layers()[0].ranges.size(), 1U);
    EXPECT_EQ((*cache)->layers()[1].ranges.size(), 2U);

    // Each piece is filled with a number of its own; afterwards all still hold theirs.
    const auto for_each_piece = [&](const auto& visit) {
        unsigned char number = 0;
        for (const backend::KvLayerView& layer : (*cache)->layers()) {
            for (const backend::KvRangeView& range : layer.ranges) {
                for (std::size_t block = 0; block < 4; ++block) {
                    for (int head = 0; head < range.n_heads; ++head) {
                        const std::size_t offset =
                            block * range.block_bytes +
                            static_cast<std::size_t>(head) * range.head_bytes;
                        visit(range.keys + offset, range.head_bytes, ++number);
                        visit(range.values + offset, range.head_bytes, ++number);
                    }
                }
            }
        }
        return number;
    };
    EXPECT_EQ(for_each_piece([](std::byte* p, std::size_t n, unsigned char number) {
                  std::memset(p, number, n);
              }),
              2 * 2 * 3 * 4);
    for_each_piece([](const std::byte* p, std::size_t n, unsigned char number) {
        EXPECT_EQ(n, 32U * 16 * 2);
        for (std::size_t i = 0; i < n; ++i) {
            ASSERT_EQ(p[i], static_cast<std::byte>(number));
        }
    });
}

TEST_F(KvCacheTest, SaysHowManyBytesAContextTakes) {
    // SmolLM2: 30 layers, 3 heads of 64, keys and values of 2 bytes: 23 KB a position.
    const KvShape shape{
        .n_layers = 30, .n_kv_heads = 3, .head_dim = 64, .type = kernels::KvType::kF16};
    EXPECT_EQ(kv_bytes(shape, 1), 23040U);
    EXPECT_EQ(kv_bytes(shape, 8192), 188743680U);
}

TEST_F(KvCacheTest, KeepsWhatADeviceHasNoRoomForOnTheOther) {
    const SystemClock clock;
    const KvShape shape{
        .n_layers = 3, .n_kv_heads = 2, .head_dim = 16, .type = kernels::KvType::kF16};
    const std::uint64_t layer_bytes = kv_bytes(shape, 4 * 32) / 3;
    // One layer's keys and values fit, then half of another's.
    backend::HostBackend device(
        *kernels::find_kernels(Isa::kScalar), clock, {.memory_bytes = layer_bytes * 3 / 2});
    std::vector<KvPlacement> placements;
    for (int layer = 0; layer < 3; ++layer) {
        placements.push_back(
            {.layer = layer, .n_heads = 2, .backend = &device, .fallback = &backend_});
    }
    {
        const auto cache = KvCache::create(shape, 4, placements);
        ASSERT_TRUE(cache.has_value());
        EXPECT_EQ((*cache)->n_heads_on(0, DeviceId::kDevice), 2);
        EXPECT_EQ((*cache)->n_heads_on(1, DeviceId::kDevice), 0);
        EXPECT_EQ((*cache)->n_heads_on(2, DeviceId::kCpu), 2);
        EXPECT_EQ(device.used_bytes(), layer_bytes) << "half a layer was given back";
        for (const backend::KvLayerView& layer : (*cache)->layers()) {
            ASSERT_EQ(layer.ranges.size(), 1U);
            std::memset(layer.ranges[0].values, 1, 4 * layer.ranges[0].block_bytes);
        }
    }
    EXPECT_EQ(device.used_bytes(), 0U);
    placements[1].fallback = nullptr;
    const auto refused = KvCache::create(shape, 4, placements);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
    EXPECT_EQ(device.used_bytes(), 0U);
}

TEST_F(KvCacheTest, ReportsMemoryThatIsNotThere) {
    const KvShape shape{
        .n_layers = 1, .n_kv_heads = 64, .head_dim = 256, .type = kernels::KvType::kF32};
    const KvPlacement placement{.layer = 0, .first_head = 0, .n_heads = 64, .backend = &backend_};
    // 2^31 blocks of 2 MiB are more than any address space has.
    const auto cache = KvCache::create(shape, 0x7FFFFFFF, {&placement, 1});
    ASSERT_FALSE(cache.has_value());
    EXPECT_EQ(cache.error().code, ErrorCode::kOutOfMemory);
}

TEST_F(KvCacheTest, MovesHeadsToADeviceAndBackWithTheBlocksInUse) {
    const SystemClock clock;
    backend::HostBackend device(*kernels::find_kernels(Isa::kScalar), clock, {});
    const KvShape shape{
        .n_layers = 2, .n_kv_heads = 3, .head_dim = 16, .type = kernels::KvType::kF16};
    const auto divided = [&](int layer, int n_there) {
        std::vector<KvPlacement> placements;
        if (n_there > 0) {
            placements.push_back({.layer = layer, .n_heads = n_there, .backend = &device});
        }
        if (n_there < 3) {
            placements.push_back({.layer = layer,
                                  .first_head = n_there,
                                  .n_heads = 3 - n_there,
                                  .backend = &backend_});
        }
        return placements;
    };
    const std::vector<KvPlacement> home = {divided(0, 0)[0], divided(1, 0)[0]};
    const std::vector<BlockRun> used = {{.first = 1, .n = 2}, {.first = 4, .n = 1}};
    for (const int n_there : {1, 2, 3}) {
        SCOPED_TRACE(n_there);
        const auto cache = KvCache::create(shape, 6, home);
        ASSERT_TRUE(cache.has_value());
        const auto number = [](std::size_t block, int head) {
            return static_cast<std::byte>(1 + block * 10 + static_cast<std::size_t>(head));
        };
        const std::size_t head_bytes = (*cache)->layers()[1].ranges[0].head_bytes;
        for (std::size_t block = 0; block < 6; ++block) {
            for (int head = 0; head < 3; ++head) {
                const std::size_t offset =
                    (block * 3 + static_cast<std::size_t>(head)) * head_bytes;
                for (std::byte* data : {(*cache)->layers()[1].ranges[0].keys,
                                        (*cache)->layers()[1].ranges[0].values}) {
                    std::memset(
                        data + offset, std::to_integer<int>(number(block, head)), head_bytes);
                }
            }
        }
        ASSERT_TRUE((*cache)->move(1, divided(1, n_there), used).has_value());
        EXPECT_EQ((*cache)->n_heads_on(1, DeviceId::kDevice), n_there);
        EXPECT_EQ((*cache)->n_heads_on(0, DeviceId::kDevice), 0);
        const std::uint64_t bytes = 2ULL * 6 * static_cast<std::uint64_t>(n_there) * head_bytes;
        EXPECT_EQ((*cache)->bytes_on(DeviceId::kDevice), bytes);
        EXPECT_EQ(device.used_bytes(), bytes);
        ASSERT_TRUE((*cache)->move(1, divided(1, 0), used).has_value());
        EXPECT_EQ(device.used_bytes(), 0U);
        for (std::size_t block = 0; block < 6; ++block) {
            const bool kept = block == 1 || block == 2 || block == 4;
            for (int head = 0; head < 3; ++head) {
                const std::byte expected = kept ? number(block, head) : std::byte{0};
                const std::size_t offset =
                    (block * 3 + static_cast<std::size_t>(head)) * head_bytes;
                for (const std::byte* data : {(*cache)->layers()[1].ranges[0].keys,
                                              (*cache)->layers()[1].ranges[0].values}) {
                    EXPECT_EQ(data[offset], expected) << block << " " << head;
                    EXPECT_EQ(data[offset + head_bytes - 1], expected) << block << " " << head;
                }
            }
        }
    }
}

TEST_F(KvCacheTest, StaysWhereItIsIfTheDeviceHasNoRoomOrIsLost) {
    const SystemClock clock;
    const KvShape shape{
        .n_layers = 1, .n_kv_heads = 1, .head_dim = 16, .type = kernels::KvType::kF16};
    const std::vector<KvPlacement> placements = {
        {.layer = 0, .first_head = 0, .n_heads = 1, .backend = &backend_}};
    std::uint64_t n_losses = 0;
    backend::HostBackend device(*kernels::find_kernels(Isa::kScalar), clock, {.truth = [&] {
        return backend::HostTruth{.left_bytes = 9000, .n_losses = n_losses};
    }});
    const std::vector<KvPlacement> there = {{.layer = 0, .n_heads = 1, .backend = &device}};
    const std::vector<BlockRun> used = {{.first = 0, .n = 4}};
    // Keys of 4 blocks are 4096 bytes, so that 9000 hold keys and values of 4 but not of 5.
    const auto large = KvCache::create(shape, 5, placements);
    ASSERT_TRUE(large.has_value());
    const std::byte* at_home = (*large)->layers()[0].ranges[0].keys;
    EXPECT_EQ((*large)->move(0, there, used).error().code, ErrorCode::kOutOfMemory);
    EXPECT_EQ((*large)->layers()[0].ranges[0].keys, at_home);
    EXPECT_EQ(device.used_bytes(), 0U);
    const auto small = KvCache::create(shape, 4, placements);
    ASSERT_TRUE(small.has_value());
    ASSERT_TRUE((*small)->move(0, there, used).has_value());
    n_losses = 1;
    EXPECT_EQ((*small)->move(0, placements, used).error().code, ErrorCode::kDeviceLost);
    EXPECT_EQ((*small)->bytes_on(DeviceId::kDevice), 8192U);
    ASSERT_TRUE((*small)->move_without_device(0, placements, used).has_value());
    EXPECT_EQ((*small)->bytes_on(DeviceId::kDevice), 0U);
    EXPECT_EQ(device.used_bytes(), 0U);
}

}  // namespace
}  // namespace ballast::cache
