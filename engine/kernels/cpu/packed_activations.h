// SPDX-License-Identifier: MIT
// Activations as integers, the form that quantised weights meet them in. All tables share it.
//
// A column is a run of groups of 128 elements, zero-filled at the end. A group's four blocks of 32
// are cut into halves of 16 and stored halves first:
//
//   q      [half 0: block 0 | block 1 | block 2 | block 3][half 1: block 0 | … | block 3]
//
// because that is how weights come out of their blocks: one 64-byte register holds the low nibbles
// of four blocks, the next the high ones. Each 16-byte lane then belongs to one block, so that one
// conversion and one multiply-add with four scales finish 128 products.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ballast::kernels {

constexpr int kGroupElements = 128;
constexpr int kGroupBlocks = 4;
constexpr int kBlockElements = 32;
constexpr int kHalfElements = 16;

/// 128 activations: x ≈ scale · q. Four cache lines, of which matmul reads three.
struct PackedGroup {
    std::int8_t q[2][kGroupBlocks][kHalfElements];
    float scale[kGroupBlocks];       // max|x| / 127 over the block of 32
    float scaled_sum[kGroupBlocks];  // scale · Σq: what a weight's minimum multiplies
    // Minus the sums of q. Where a weight is stored as w + offset, Σ(w + offset)·q − offset·Σq is
    // an exact integer.
    std::int32_t negative_sum[kGroupBlocks];
    std::int16_t negative_half_sum[2][kGroupBlocks];
    // The same for every four consecutive q: what one 32-bit lane of a dot product adds up.
    std::int16_t negative_lane_sum[2][kGroupBlocks * 4];
};
static_assert(sizeof(PackedGroup) == 256);

constexpr std::size_t packed_groups(std::size_t k) {
    return (k + kGroupElements - 1) / kGroupElements;
}

/// Bytes of one column. An odd number of cache lines, so that the columns of a tile do not all
/// fall into the same sets of the cache.
constexpr std::size_t packed_column_bytes(std::size_t k) {
    const std::size_t lines = packed_groups(k) * sizeof(PackedGroup) / 64;
    return (lines | 1U) * 64;
}

}  // namespace ballast::kernels
