// SPDX-License-Identifier: MIT
// The logical side of the KV cache: which blocks of 32 tokens are free and who shares the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/result.h"

namespace ballast::cache {

/// Logical blocks [first, first + n).
struct BlockRun {
    int first = 0;
    int n = 0;
};

/// Counts references to logical blocks. Engine thread.
class BlockPool {
  public:
    explicit BlockPool(int n_blocks);

    /// A block with one reference, or kOverloaded if none is free.
    Result<std::int32_t> take();
    /// One more sequence reads this block.
    void share(std::int32_t block);
    /// One reference less; the last one frees the block.
    void release(std::int32_t block);

    int references(std::int32_t block) const;
    /// Those that have any, in runs.
    std::vector<BlockRun> used() const;
    int n_blocks() const { return static_cast<int>(references_.size()); }
    int n_used() const { return n_blocks() - static_cast<int>(free_.size()); }

  private:
    std::vector<std::int32_t> references_;  // by block
    std::vector<std::int32_t> free_;        // the next one to hand out is last
};

/// The blocks of one sequence in order of position; owns a reference to each.
class BlockTable {
  public:
    /// Room for blocks_max blocks is taken now, so that growing takes no memory.
    BlockTable(BlockPool& pool, int blocks_max);
    ~BlockTable() { clear(); }
    BlockTable(const BlockTable&) = delete;
    BlockTable& operator=(const BlockTable&) = delete;

    /// Makes sure positions [0, n_tokens) have blocks. kOverloaded if the pool is empty.
    Status grow(std::int64_t n_tokens);
    /// Starts with the first n_blocks of another sequence, shared; only on an empty table. Shared
    /// blocks are read, never written: the caller shares whole blocks that are complete.
    void share_prefix(const BlockTable& other, int n_blocks);
    void clear();
    std::span<const std::int32_t> blocks() const { return blocks_; }

  private:
    BlockPool& pool_;
    std::vector<std::int32_t> blocks_;
};

}  // namespace ballast::cache
