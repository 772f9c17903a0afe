// SPDX-License-Identifier: MIT
// Takes each placement's storage from its device and lays the views over it.
#include "engine/cache/kv_cache.h"

#include "engine/base/check.h"

namespace ballast::cache {

namespace {

std::size_t element_bytes(kernels::KvType type) {
    return type == kernels::KvType::kF16 ? 2 : 4;
}

}  // namespace

std::uint64_t kv_bytes(const KvShape& shape, std::int64_t n_tokens) {
    return 2ULL * static_cast<std::uint64_t>(shape.n_layers) *
           static_cast<std::uint64_t>(shape.n_kv_heads) *
           static_cast<std::uint64_t>(shape.head_dim) * element_bytes(shape.type) *
           static_cast<std::uint64_t>(n_tokens);
}

Result<KvCache::Storage> KvCache::take(backend::Backend& backend, std::size_t bytes) {
    Storage storage{.backend = &backend};
    BALLAST_TRY(storage.keys, backend.allocate_chunk(bytes));
    auto values = backend.allocate_chunk(bytes);
    if (!values) {
        backend.free_chunk(storage.keys);
        return tl::unexpected(std::move(values).error());
    }
    storage.values = *values;
    return storage;
}

Result<std::unique_ptr<KvCache>> KvCache::create(const KvShape& shape,
                                                 int n_blocks,
                                                 std::span<const KvPlacement> placements) {
    std::unique_ptr<KvCache> cache(new KvCache());
    const std::size_t head_bytes = static_cast<std::size_t>(kernels::kKvBlockTokens) *
                                   static_cast<std::size_t>(shape.head_dim) *
                                   element_bytes(shape.type);
    cache->ranges_.reserve(placements.size());
    std::vector<std::size_t> first_range(static_cast<std::size_t>(shape.n_layers) + 1, 0);
    for (const KvPlacement& placement : placements) {
        const std::size_t block_bytes = head_bytes * static_cast<std::size_t>(placement.n_heads);
        const std::size_t total_bytes = block_bytes * static_cast<std::size_t>(n_blocks);
        auto taken = take(*placement.backend, total_bytes);
        if (!taken && placement.fallback != nullptr) {
            taken = take(*placement.fallback, total_bytes);
        }
        BALLAST_TRY(const Storage storage, std::move(taken));
        cache->storage_.push_back(storage);
        cache->ranges_.push_back({.first_head = placement.first_head,
                                  .n_heads = placement.n_heads,
                                  .keys = storage.keys.data,
                                  .values = storage.values.data,
                                  .block_bytes = block_bytes,
                                  .head_bytes = head_bytes});
        ++first_range[static_cast<std::size_t>(placement.layer) + 1];
    }
    const std::span<const backend::KvRangeView> ranges(cache->ranges_);
    std::size_t begin = 0;
    for (int layer = 0; layer < shape.n_layers; ++layer) {
        const std::size_t n = first_range[static_cast<std::size_t>(layer) + 1];
        const auto layer_ranges = ranges.subspan(begin, n);
        int covered = 0;
        for (const backend::KvRangeView& range : layer_ranges) {
            BALLAST_CHECK(range.first_head == covered);
            covered += range.n_heads;
        }
        BALLAST_CHECK(covered == shape.n_kv_heads);
        cache->layers_.push_back({.type = shape.type, .ranges = layer_ranges});
        begin += n;
    }
    return cache;
}

KvCache::~KvCache() {
    for (const Storage& storage : storage_) {
        storage.backend->free_chunk(storage.keys);
        storage.backend->free_chunk(storage.values);
    }
}

}  // namespace ballast::cache
