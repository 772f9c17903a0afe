// SPDX-License-Identifier: MIT
// Copies on the host of the keys and values that a device holds. If the device is lost, sequences
// go on from what is here, and only the rest is computed again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/step_context.h"
#include "engine/cache/block_pool.h"
#include "engine/cache/kv_cache.h"

namespace ballast::cache {

/// Follows one distribution of heads; where heads move it is made anew. Rows cross on the copy
/// queue some at a time, so that the last ones of a block may be missing here. Engine thread; what
/// it is made of outlives it.
class KvMirror {
  public:
    struct Setup {
        const KvCache* cache = nullptr;
        const BlockPool* blocks = nullptr;
        backend::Backend* device = nullptr;
        backend::Backend* host = nullptr;
        /// Most bytes of the host; blocks that find no room have no copy.
        std::uint64_t bytes_most = 0;
        KvCrossed* crossed = nullptr;  // where its copies are counted; null: nowhere
    };
    /// What blocks in use hold already crosses with the next steps. kOutOfMemory.
    static Result<std::unique_ptr<KvMirror>> create(const Setup& setup);
    ~KvMirror();
    KvMirror(const KvMirror&) = delete;
    KvMirror& operator=(const KvMirror&) = delete;

    /// A step is about to write these rows: waits until nothing reads what they replace.
    void before(std::span<const backend::SequenceRows> rows);
    /// The step has written them. Takes no memory. An error of the device ends the copying; whoever
    /// uses it next hears of it.
    void note(std::span<const backend::SequenceRows> rows);
    /// Returns when nothing is on its way any more.
    void finish();

    /// Rows of a block, from the first on, that are here for certain, if they were written.
    int rows_of(std::int32_t block) const { return blocks_[index(block)].n_here; }
    /// Writes what is here of the layer's blocks into a range on the CPU, which has the heads that
    /// are mirrored. After finish().
    void restore(int layer, const backend::KvRangeView& to) const;
    std::uint64_t total_bytes() const { return pages_.size_bytes; }

  private:
    /// Rows of one block on their way.
    struct Crossing {
        backend::Event event = {};
        std::int32_t block = 0;
        int begin = 0;
        int end = 0;
    };
    /// One block; rows are counted from its first on.
    struct Block {
        std::int32_t page = -1;
        int n_written = 0;
        int n_ordered = 0;  // on their way or here
        int n_here = 0;
    };
    /// One layer's part of a page: keys, then values, as the device's range has them.
    struct LayerPart {
        backend::KvRangeView range = {};  // on the device; no heads: nothing of it is there
        std::size_t offset = 0;
    };

    explicit KvMirror(const Setup& setup) : setup_(setup) {}
    static std::size_t index(std::int32_t block) { return static_cast<std::size_t>(block); }
    void lay_out();
    template <class Use>
    void for_each_block(std::span<const backend::SequenceRows> rows, const Use& use) const;
    void order_if_due(std::int32_t block);
    Status order(std::int32_t block);
    bool has_page(std::int32_t block);
    void reclaim_pages();
    /// Takes note of what has arrived; waits for the first `n_at_least`.
    void settle(std::size_t n_at_least);

    Setup setup_;
    std::size_t row_bytes_ = 0;   // of one head
    std::size_t page_bytes_ = 0;  // of one block, all layers
    std::vector<LayerPart> layers_;
    backend::Chunk pages_ = {};
    std::vector<std::int32_t> free_pages_;
    std::vector<Block> blocks_;
    std::vector<Crossing> crossings_;  // in order
    std::optional<backend::Event> last_ = {};
    std::size_t backlog_ = 0;  // blocks are looked at from this one on
    bool broken_ = false;
};

}  // namespace ballast::cache
