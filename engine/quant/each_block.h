// SPDX-License-Identifier: MIT
// Walks the blocks of a row.
#pragma once

#include <cstddef>
#include <cstring>

namespace ballast::quant {

/// Calls expand(block, first weight) for each block of n weights. The block is copied out, since
/// blocks of odd size are not aligned.
template <class Block, class Expand>
void each_block(const std::byte* blocks, std::size_t n, float* out, Expand expand) {
    for (std::size_t i = 0; i < n; i += Block::kElements) {
        Block block;
        std::memcpy(&block, blocks, sizeof(Block));
        blocks += sizeof(Block);
        expand(block, out + i);
    }
}

}  // namespace ballast::quant
