// SPDX-License-Identifier: MIT
// Takes each placement's storage from its device and lays the views over it.
#include "engine/cache/kv_cache.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/backend/put_or_wait.h"
#include "engine/base/check.h"

namespace ballast::cache {

namespace {

std::size_t element_bytes(kernels::KvType type) {
    return type == kernels::KvType::kF16 ? 2 : 4;
}

/// Copies of one device that are on their way together.
class Crossing {
  public:
    explicit Crossing(backend::Backend& device) : device_(device) {}

    template <class Put>
    Status put(const Put& put) {
        return backend::put_or_wait(device_, last_, [&] { return put(device_); });
    }
    Status finish() { return last_ ? device_.wait(*last_) : Status(); }

  private:
    backend::Backend& device_;
    std::optional<backend::Event> last_ = {};
};

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

Result<KvCache::Layer> KvCache::take_layer(std::span<const KvPlacement> placements) const {
    const std::size_t head_bytes = static_cast<std::size_t>(kernels::kKvBlockTokens) *
                                   static_cast<std::size_t>(shape_.head_dim) *
                                   element_bytes(shape_.type);
    Layer layer;
    int covered = 0;
    for (const KvPlacement& placement : placements) {
        BALLAST_CHECK(placement.first_head == covered);
        covered += placement.n_heads;
        const std::size_t block_bytes = head_bytes * static_cast<std::size_t>(placement.n_heads);
        const std::size_t total_bytes = block_bytes * static_cast<std::size_t>(n_blocks_);
        auto taken = take(*placement.backend, total_bytes);
        if (!taken && placement.fallback != nullptr) {
            taken = take(*placement.fallback, total_bytes);
        }
        if (!taken) {
            give_back(layer);
            return tl::unexpected(std::move(taken).error());
        }
        layer.storage.push_back(*taken);
        layer.ranges.push_back({.first_head = placement.first_head,
                                .n_heads = placement.n_heads,
                                .keys = taken->keys.data,
                                .values = taken->values.data,
                                .block_bytes = block_bytes,
                                .head_bytes = head_bytes});
    }
    BALLAST_CHECK(covered == shape_.n_kv_heads);
    return layer;
}

Result<std::unique_ptr<KvCache>> KvCache::create(const KvShape& shape,
                                                 int n_blocks,
                                                 std::span<const KvPlacement> placements) {
    std::unique_ptr<KvCache> cache(new KvCache(shape, n_blocks));
    cache->storage_.resize(static_cast<std::size_t>(shape.n_layers));
    cache->layers_.resize(static_cast<std::size_t>(shape.n_layers), {.type = shape.type});
    for (int layer = 0; layer < shape.n_layers; ++layer) {
        std::size_t n = 0;
        while (n < placements.size() && placements[n].layer == layer) {
            ++n;
        }
        BALLAST_TRY(Layer storage, cache->take_layer(placements.first(n)));
        cache->settle(layer, std::move(storage));
        placements = placements.subspan(n);
    }
    BALLAST_CHECK(placements.empty());
    return cache;
}

KvCache::~KvCache() {
    for (const Layer& layer : storage_) {
        give_back(layer);
    }
}

std::uint64_t KvCache::bytes_on(DeviceId device) const {
    std::uint64_t sum = 0;
    for (const Layer& layer : storage_) {
        for (const Storage& storage : layer.storage) {
            if (storage.backend->device() == device) {
                sum += storage.keys.size_bytes + storage.values.size_bytes;
            }
        }
    }
    return sum;
}

int KvCache::n_heads_on(int layer, DeviceId device) const {
    const Layer& of = storage_[static_cast<std::size_t>(layer)];
    int sum = 0;
    for (std::size_t i = 0; i < of.ranges.size(); ++i) {
        sum += of.storage[i].backend->device() == device ? of.ranges[i].n_heads : 0;
    }
    return sum;
}

void KvCache::give_back(const Layer& layer) {
    for (const Storage& storage : layer.storage) {
        storage.backend->free_chunk(storage.keys);
        storage.backend->free_chunk(storage.values);
    }
}

void KvCache::settle(int layer, Layer storage) {
    const auto index = static_cast<std::size_t>(layer);
    give_back(storage_[index]);
    storage_[index] = std::move(storage);
    layers_[index].ranges = storage_[index].ranges;
}

Status KvCache::copy(const Layer& from,
                     const Layer& to,
                     std::span<const BlockRun> used,
                     bool is_device_lost) {
    Status status;
    for (std::size_t target = 0; target < to.ranges.size(); ++target) {
        for (std::size_t source = 0; source < from.ranges.size(); ++source) {
            if (is_device_lost && from.storage[source].backend->device() == DeviceId::kDevice) {
                continue;
            }
            const backend::KvRangeView& old = from.ranges[source];
            const backend::KvRangeView& now = to.ranges[target];
            const int first = std::max(old.first_head, now.first_head);
            const int end = std::min(old.first_head + old.n_heads, now.first_head + now.n_heads);
            const bool outwards = to.storage[target].backend->device() == DeviceId::kCpu;
            BALLAST_CHECK(outwards || first >= end ||
                          from.storage[source].backend->device() == DeviceId::kCpu);
            // What is on the CPU on both sides is copied by it.
            Crossing crossing(outwards ? *from.storage[source].backend
                                       : *to.storage[target].backend);
            for (const BlockRun& run : used) {
                for (const auto& [to_data, from_data] :
                     {std::pair{now.keys, old.keys}, std::pair{now.values, old.values}}) {
                    if (first >= end || !status) {
                        continue;
                    }
                    const auto offset = [&](const backend::KvRangeView& range) {
                        return static_cast<std::size_t>(run.first) * range.block_bytes +
                               static_cast<std::size_t>(first - range.first_head) *
                                   range.head_bytes;
                    };
                    const backend::Strips strips{
                        .row_bytes = static_cast<std::size_t>(end - first) * old.head_bytes,
                        .n_rows = static_cast<std::size_t>(run.n),
                        .device_stride = outwards ? old.block_bytes : now.block_bytes,
                        .host_stride = outwards ? now.block_bytes : old.block_bytes};
                    status = crossing.put(
                        [&, to_data = to_data, from_data = from_data](backend::Backend& device) {
                            std::byte* const there = to_data + offset(now);
                            const std::byte* const here = from_data + offset(old);
                            return outwards ? device.copy_strips_out(
                                                  backend::Queue::kCopy, there, here, strips)
                                            : device.copy_strips_in(
                                                  backend::Queue::kCopy, there, here, strips);
                        });
                    if (status && from.storage[source].backend != to.storage[target].backend) {
                        (outwards ? crossed_.out_bytes : crossed_.in_bytes) += strips.total_bytes();
                    }
                }
            }
            // Also after a failure: nothing may still be on its way when memory is given back.
            const Status done = crossing.finish();
            status = status ? done : status;
        }
    }
    return status;
}

Status KvCache::move(int layer,
                     std::span<const KvPlacement> placements,
                     std::span<const BlockRun> used) {
    BALLAST_TRY(Layer storage, take_layer(placements));
    return move_to(layer, std::move(storage), used, false);
}

Status KvCache::move_without_device(int layer,
                                    std::span<const KvPlacement> placements,
                                    std::span<const BlockRun> used) {
    BALLAST_TRY(Layer storage, take_layer(placements));
    return move_to(layer, std::move(storage), used, true);
}

Status KvCache::move_to(int layer,
                        Layer storage,
                        std::span<const BlockRun> used,
                        bool is_device_lost) {
    const Layer& from = storage_[static_cast<std::size_t>(layer)];
    if (Status status = copy(from, storage, used, is_device_lost); !status) {
        give_back(storage);
        return status;
    }
    settle(layer, std::move(storage));
    return {};
}

}  // namespace ballast::cache
