// SPDX-License-Identifier: MIT
// The physical side of the KV cache. A logical block is shared by sequences; its storage is per
// (layer, range of KV heads), and the device belongs to that pair, not to the block.
#pragma once

#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/result.h"

namespace ballast::cache {

/// What the keys and values of a model look like.
struct KvShape {
    int n_layers = 0;
    int n_kv_heads = 0;
    int head_dim = 0;
    kernels::KvType type = kernels::KvType::kF16;
};

/// KV heads [first_head, first_head + n_heads) of one layer, kept on one device.
struct KvPlacement {
    int layer = 0;
    int first_head = 0;
    int n_heads = 0;
    backend::Backend* backend = nullptr;
    backend::Backend* fallback = nullptr;  // where they go if that one has no room; null: nowhere
};

/// Bytes of all keys and values of n_tokens positions.
std::uint64_t kv_bytes(const KvShape& shape, std::int64_t n_tokens);

/// Owns the storage of all blocks, taken up front. Engine thread.
class KvCache {
  public:
    /// Placements cover each layer's heads once, in order of layer and head. kOutOfMemory.
    static Result<std::unique_ptr<KvCache>> create(const KvShape& shape,
                                                   int n_blocks,
                                                   std::span<const KvPlacement> placements);
    ~KvCache();
    KvCache(const KvCache&) = delete;
    KvCache& operator=(const KvCache&) = delete;

    /// One view a layer.
    std::span<const backend::KvLayerView> layers() const { return layers_; }
    /// Where a placement's heads went.
    const backend::Backend& backend_of(std::size_t placement) const {
        return *storage_[placement].backend;
    }

  private:
    struct Storage {
        backend::Backend* backend = nullptr;
        backend::Chunk keys = {};
        backend::Chunk values = {};
    };
    KvCache() = default;
    static Result<Storage> take(backend::Backend& backend, std::size_t bytes);
    std::vector<Storage> storage_;              // by placement
    std::vector<backend::KvRangeView> ranges_;  // by placement
    std::vector<backend::KvLayerView> layers_;  // by layer, into ranges_
};

}  // namespace ballast::cache
