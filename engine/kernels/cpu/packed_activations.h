// SPDX-License-Identifier: MIT
// Activations as integers, the form that quantised weights meet them in. All tables share it.
//
// A column is a run of groups of 128 elements, zero-filled at the end. A group's four blocks of 32
// are cut into halves of 16 and stored halves first:
//
//   q[plane] [half 0: block 0 | block 1 | block 2 | block 3][half 1: block 0 | … | block 3]
//
// because that is how weights come out of their blocks: one 64-byte register holds the low nibbles
// of four blocks, the next the high ones. Each 16-byte lane then belongs to one block, so that one
// conversion and one multiply-add with four scales finish 128 products.
//
// An activation has 16 bits: 8 bits alone cost 0.08 of log-probability on the models measured,
// against 0.001. It is kept as two planes of bytes, x ≈ scale · (256 · q[0] + q[1]), because
// processors multiply bytes: a dot product takes the high plane, shifts the sum by 8 and goes on
// with the low plane, all in exact 32-bit integers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ballast::kernels {

constexpr int kGroupElements = 128;
constexpr int kGroupBlocks = 4;
constexpr int kBlockElements = 32;
constexpr int kHalfElements = 16;

/// Steps of the largest activation of a block: its high byte, rounded, is at most 127.
constexpr float kActivationSteps = 32512.0F;

/// The two bytes of an activation: steps ≈ 256 · high + low, |steps| ≤ kActivationSteps. Neither is
/// −128, whose negative does not fit a byte: steps that end in it move up by one.
struct Planes {
    std::int8_t high;
    std::int8_t low;
};
constexpr Planes split_planes(int steps) {
    const int high = (steps + 128) >> 8;
    const int low = steps - high * 256;
    return {static_cast<std::int8_t>(high), static_cast<std::int8_t>(low < -127 ? -127 : low)};
}

/// 128 activations. Eight cache lines, of which matmul reads six.
struct PackedGroup {
    std::int8_t q[2][2][kGroupBlocks][kHalfElements];  // [plane][half]
    float scale[kGroupBlocks];                         // max|x| / 32512 over the block of 32
    float scaled_sum[kGroupBlocks];  // scale · Σq: what a weight's minimum multiplies
    // Minus the sums of 256 · q[0] + q[1]. Where a weight is stored as w + offset, Σ(w + offset)·q
    // − offset·Σq is an exact integer.
    std::int32_t negative_sum[kGroupBlocks];
    std::int32_t negative_half_sum[2][kGroupBlocks];
    std::int32_t unused[12];
    // The same for every four consecutive q: what one 32-bit lane of a dot product adds up.
    std::int32_t negative_lane_sum[2][kGroupBlocks * 4];
};
static_assert(sizeof(PackedGroup) == 512);

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
