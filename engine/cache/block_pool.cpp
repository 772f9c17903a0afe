// SPDX-License-Identifier: MIT
// Block counting.
#include "engine/cache/block_pool.h"

#include "engine/base/check.h"
#include "engine/kernels/cpu/kernel_table.h"

namespace ballast::cache {

BlockPool::BlockPool(int n_blocks) : references_(static_cast<std::size_t>(n_blocks), 0) {
    free_.reserve(references_.size());
    for (int block = n_blocks - 1; block >= 0; --block) {
        free_.push_back(block);
    }
}

Result<std::int32_t> BlockPool::take() {
    if (free_.empty()) {
        return fail(ErrorCode::kOverloaded, "no KV block is free");
    }
    const std::int32_t block = free_.back();
    free_.pop_back();
    references_[static_cast<std::size_t>(block)] = 1;
    return block;
}

void BlockPool::share(std::int32_t block) {
    BALLAST_CHECK(references(block) > 0);
    ++references_[static_cast<std::size_t>(block)];
}

void BlockPool::release(std::int32_t block) {
    BALLAST_CHECK(references(block) > 0);
    if (--references_[static_cast<std::size_t>(block)] == 0) {
        free_.push_back(block);
    }
}

std::vector<BlockRun> BlockPool::used() const {
    std::vector<BlockRun> runs;
    for (int block = 0; block < n_blocks(); ++block) {
        if (references(block) == 0) {
            continue;
        }
        if (!runs.empty() && runs.back().first + runs.back().n == block) {
            ++runs.back().n;
        } else {
            runs.push_back({.first = block, .n = 1});
        }
    }
    return runs;
}

int BlockPool::references(std::int32_t block) const {
    return references_[static_cast<std::size_t>(block)];
}

BlockTable::BlockTable(BlockPool& pool, int blocks_max) : pool_(pool) {
    blocks_.reserve(static_cast<std::size_t>(blocks_max));
}

Status BlockTable::grow(std::int64_t n_tokens) {
    const auto wanted = static_cast<std::size_t>((n_tokens + kernels::kKvBlockTokens - 1) /
                                                 kernels::kKvBlockTokens);
    while (blocks_.size() < wanted) {
        BALLAST_TRY(const std::int32_t block, pool_.take());
        blocks_.push_back(block);
    }
    return {};
}

void BlockTable::share_prefix(const BlockTable& other, int n_blocks) {
    BALLAST_CHECK(blocks_.empty());
    for (const std::int32_t block : other.blocks().first(static_cast<std::size_t>(n_blocks))) {
        pool_.share(block);
        blocks_.push_back(block);
    }
}

void BlockTable::clear() {
    for (const std::int32_t block : blocks_) {
        pool_.release(block);
    }
    blocks_.clear();
}

}  // namespace ballast::cache
