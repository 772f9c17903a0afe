// SPDX-License-Identifier: MIT
// The physical side of the KV cache. A logical block is shared by sequences; its storage is per
// (layer, range of KV heads), and the device belongs to that pair, not to the block.
#pragma once

#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/result.h"
#include "engine/cache/block_pool.h"

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

/// Bytes of keys and values that were copied between the host and a device.
struct KvCrossed {
    std::uint64_t in_bytes = 0;
    std::uint64_t out_bytes = 0;
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
    /// Puts a layer's heads where these placements say and gives the old storage back. The blocks
    /// in use keep what they hold; heads move between the CPU and a device, not between two
    /// devices. No step runs meanwhile. An error (kOutOfMemory, kDeviceLost) leaves everything
    /// where it was.
    Status move(int layer, std::span<const KvPlacement> placements, std::span<const BlockRun> used);
    /// The same if a device's contents are lost with it: what the CPU has is kept.
    Status move_without_device(int layer,
                               std::span<const KvPlacement> placements,
                               std::span<const BlockRun> used);
    /// Of the storage that is there.
    std::uint64_t bytes_on(DeviceId device) const;
    /// By move(), since the start; whoever else copies counts here too.
    const KvCrossed& crossed() const { return crossed_; }
    KvCrossed& crossed() { return crossed_; }
    /// How many of a layer's heads have theirs there.
    int n_heads_on(int layer, DeviceId device) const;

  private:
    /// Keys and values of one range of heads.
    struct Storage {
        backend::Backend* backend = nullptr;
        backend::Chunk keys = {};
        backend::Chunk values = {};
    };
    struct Layer {
        std::vector<Storage> storage = {};
        std::vector<backend::KvRangeView> ranges = {};  // over it
    };
    KvCache(const KvShape& shape, int n_blocks) : shape_(shape), n_blocks_(n_blocks) {}
    static Result<Storage> take(backend::Backend& backend, std::size_t bytes);
    Result<Layer> take_layer(std::span<const KvPlacement> placements) const;
    static void give_back(const Layer& layer);
    void settle(int layer, Layer storage);
    Status move_to(int layer, Layer storage, std::span<const BlockRun> used, bool is_device_lost);
    Status copy(const Layer& from,
                const Layer& to,
                std::span<const BlockRun> used,
                bool is_device_lost);

    KvShape shape_;
    int n_blocks_;
    KvCrossed crossed_;
    std::vector<Layer> storage_;                // by layer
    std::vector<backend::KvLayerView> layers_;  // likewise, over it
};

}  // namespace ballast::cache
