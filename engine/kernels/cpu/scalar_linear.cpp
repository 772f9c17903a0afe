// SPDX-License-Identifier: MIT
// Matrix products in plain loops. A weight row is unpacked to small integers, group by group, in
// the order of the packed activations (packed_activations.h); the integer dot of a block is exact,
// and blocks are added in float32 in the order of k.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/kernels/cpu/packed_activations.h"
#include "engine/kernels/cpu/scalar.h"
#include "engine/quant/blocks.h"
#include "engine/quant/dequantize.h"
#include "engine/quant/float16.h"

namespace ballast::kernels::scalar {
namespace {

using quant::half_to_float;

/// 128 weights: w = scale[half][block] · q + min[block]. 16 bits, because 16-bit products add up
/// in pairs on every processor.
struct WeightGroup {
    std::int16_t q[2][kGroupBlocks][kHalfElements];
    float scale[2][kGroupBlocks];
    float min[kGroupBlocks];
};

// Writes one block of 32 (scale and minimum the same for both halves). get(i) gives weight i.
template <class Get>
void set_block(WeightGroup& group, int block, float scale, float min, Get get) {
    for (int half = 0; half < 2; ++half) {
        for (int i = 0; i < kHalfElements; ++i) {
            group.q[half][block][i] = static_cast<std::int16_t>(get(half * kHalfElements + i));
        }
        group.scale[half][block] = scale;
    }
    group.min[block] = min;
}

int nibble(const std::uint8_t* qs, int i) {
    return i < kHalfElements ? qs[i] & 0x0F : qs[i - kHalfElements] >> 4;
}

int fifth_bit(const std::uint8_t* qh, int i) {
    return ((qh[i / 8] >> (i % 8)) & 1) << 4;
}

void unpack_block(const quant::BlockQ4_0& b, WeightGroup& group, int block) {
    set_block(group, block, half_to_float(b.d), 0.0F, [&](int i) { return nibble(b.qs, i) - 8; });
}

void unpack_block(const quant::BlockQ4_1& b, WeightGroup& group, int block) {
    set_block(group, block, half_to_float(b.d), half_to_float(b.m), [&](int i) {
        return nibble(b.qs, i);
    });
}

void unpack_block(const quant::BlockQ5_0& b, WeightGroup& group, int block) {
    set_block(group, block, half_to_float(b.d), 0.0F, [&](int i) {
        return (nibble(b.qs, i) | fifth_bit(b.qh, i)) - 16;
    });
}

void unpack_block(const quant::BlockQ5_1& b, WeightGroup& group, int block) {
    set_block(group, block, half_to_float(b.d), half_to_float(b.m), [&](int i) {
        return nibble(b.qs, i) | fifth_bit(b.qh, i);
    });
}

void unpack_block(const quant::BlockQ8_0& b, WeightGroup& group, int block) {
    set_block(group, block, half_to_float(b.d), 0.0F, [&](int i) { return b.qs[i]; });
}

// Half `part` (128 weights) of a super-block of 256.
void unpack_part(const quant::BlockQ4_K& b, int part, WeightGroup& group) {
    for (int block = 0; block < kGroupBlocks; ++block) {
        const int g = part * kGroupBlocks + block;
        const auto [scale, min] = quant::scale_min_k4(b.scales, g);
        const std::uint8_t* qs = b.qs + g / 2 * 32;
        const int shift = g % 2 * 4;
        set_block(group,
                  block,
                  half_to_float(b.d) * static_cast<float>(scale),
                  -(half_to_float(b.dmin) * static_cast<float>(min)),
                  [&](int i) { return (qs[i] >> shift) & 0x0F; });
    }
}

void unpack_part(const quant::BlockQ5_K& b, int part, WeightGroup& group) {
    for (int block = 0; block < kGroupBlocks; ++block) {
        const int g = part * kGroupBlocks + block;
        const auto [scale, min] = quant::scale_min_k4(b.scales, g);
        const std::uint8_t* qs = b.qs + g / 2 * 32;
        const int shift = g % 2 * 4;
        set_block(group,
                  block,
                  half_to_float(b.d) * static_cast<float>(scale),
                  -(half_to_float(b.dmin) * static_cast<float>(min)),
                  [&](int i) { return ((qs[i] >> shift) & 0x0F) | (((b.qh[i] >> g) & 1) << 4); });
    }
}

void unpack_part(const quant::BlockQ6_K& b, int part, WeightGroup& group) {
    const std::uint8_t* ql = b.ql + part * 64;
    const std::uint8_t* qh = b.qh + part * 32;
    for (int block = 0; block < kGroupBlocks; ++block) {
        set_block(group, block, 0.0F, 0.0F, [&](int i) {
            const int low = (ql[block % 2 * 32 + i] >> (block / 2 * 4)) & 0x0F;
            return (low | (((qh[i] >> (block * 2)) & 3) << 4)) - 32;
        });
        for (int half = 0; half < 2; ++half) {
            const int scale = b.scales[part * 8 + block * 2 + half];
            group.scale[half][block] = half_to_float(b.d) * static_cast<float>(scale);
        }
    }
}

/// Unpacks weights 128·g … of a row; what lies past the row's end becomes zero.
template <class Block>
void unpack_group(const std::byte* row, std::size_t k, std::size_t g, WeightGroup& group) {
    Block b;
    if constexpr (Block::kElements == 2 * kGroupElements) {
        std::memcpy(&b, row + g / 2 * sizeof b, sizeof b);
        unpack_part(b, static_cast<int>(g % 2), group);
    } else {
        const std::size_t first = g * kGroupBlocks;
        const std::size_t n_blocks =
            std::min<std::size_t>(k / kBlockElements - first, kGroupBlocks);
        for (std::size_t i = 0; i < kGroupBlocks; ++i) {
            if (i < n_blocks) {
                std::memcpy(&b, row + (first + i) * sizeof b, sizeof b);
                unpack_block(b, group, static_cast<int>(i));
            } else {
                set_block(group, static_cast<int>(i), 0.0F, 0.0F, [](int) { return 0; });
            }
        }
    }
}

/// Exact: at most 16 · 128 · 32767 = 67 million.
int half_dot(const WeightGroup& w, const PackedGroup& x, int half, int block) {
    // 16-bit operands: the product that even the oldest vector units have.
    std::int16_t activations[kHalfElements];
#pragma GCC unroll 1  // before the loops become vectors, which g++ does not make of unrolled ones
    for (int i = 0; i < kHalfElements; ++i) {
        activations[i] =
            static_cast<std::int16_t>(256 * x.q[0][half][block][i] + x.q[1][half][block][i]);
    }
    int sum = 0;
#pragma GCC unroll 1
    for (int i = 0; i < kHalfElements; ++i) {
        sum += w.q[half][block][i] * activations[i];
    }
    return sum;
}

template <bool kScalePerHalf>
float add_group(float sum, const WeightGroup& w, const PackedGroup& x) {
    for (int b = 0; b < kGroupBlocks; ++b) {
        const int dot0 = half_dot(w, x, 0, b);
        const int dot1 = half_dot(w, x, 1, b);
        if constexpr (kScalePerHalf) {
            sum += w.scale[0][b] * x.scale[b] * static_cast<float>(dot0);
            sum += w.scale[1][b] * x.scale[b] * static_cast<float>(dot1);
        } else {
            sum += w.scale[0][b] * x.scale[b] * static_cast<float>(dot0 + dot1);
            sum += w.min[b] * x.scaled_sum[b];
        }
    }
    return sum;
}

const PackedGroup* packed_column(const LinearArgs& args, std::size_t column) {
    return reinterpret_cast<const PackedGroup*>(args.activations + column * args.activation_bytes);
}

template <class Block>
constexpr bool kHasHalfScales = std::is_same_v<Block, quant::BlockQ6_K>;

template <class Block>
void matvec(const LinearArgs& args) {
    const std::size_t n_groups = packed_groups(args.k);
    for (std::size_t r = 0; r < args.n_rows; ++r) {
        float sums[kMatvecColumnsMax] = {};
        for (std::size_t g = 0; g < n_groups; ++g) {
            WeightGroup group;
            unpack_group<Block>(args.weights + r * args.row_bytes, args.k, g, group);
            for (std::size_t c = 0; c < args.n_columns; ++c) {
                sums[c] =
                    add_group<kHasHalfScales<Block>>(sums[c], group, packed_column(args, c)[g]);
            }
        }
        for (std::size_t c = 0; c < args.n_columns; ++c) {
            args.out[c * args.out_stride + r] = sums[c];
        }
    }
}

template <class Block>
void matmul(const LinearArgs& args) {
    const std::size_t n_groups = packed_groups(args.k);
    auto* row = reinterpret_cast<WeightGroup*>(args.scratch);
    for (std::size_t r = 0; r < args.n_rows; ++r) {
        for (std::size_t g = 0; g < n_groups; ++g) {
            unpack_group<Block>(args.weights + r * args.row_bytes, args.k, g, row[g]);
        }
        for (std::size_t c = 0; c < args.n_columns; ++c) {
            float sum = 0.0F;
            for (std::size_t g = 0; g < n_groups; ++g) {
                sum = add_group<kHasHalfScales<Block>>(sum, row[g], packed_column(args, c)[g]);
            }
            args.out[c * args.out_stride + r] = sum;
        }
    }
}

/// A function that expands n weights of a float row.
using Expand = void (*)(const std::byte* row, std::size_t n, float* out);

// Lanes of the dot product of float rows: rounding errors grow with k / kLanes only.
constexpr std::size_t kLanes = 8;

template <Expand kExpand, std::size_t kElementBytes>
void float_product(const LinearArgs& args) {
    constexpr std::size_t kChunk = 256;
    for (std::size_t r = 0; r < args.n_rows; ++r) {
        for (std::size_t c = 0; c < args.n_columns; ++c) {
            const auto* x =
                reinterpret_cast<const float*>(args.activations + c * args.activation_bytes);
            float lanes[kLanes] = {};
            for (std::size_t begin = 0; begin < args.k; begin += kChunk) {
                const std::size_t n = std::min(kChunk, args.k - begin);
                float w[kChunk];
                kExpand(args.weights + r * args.row_bytes + begin * kElementBytes, n, w);
                for (std::size_t i = 0; i < n; ++i) {
                    lanes[i % kLanes] += w[i] * x[begin + i];
                }
            }
            float sum = 0.0F;
            for (const float lane : lanes) {
                sum += lane;
            }
            args.out[c * args.out_stride + r] = sum;
        }
    }
}

template <class Block>
constexpr LinearKernels packed_kernels() {
    return {.form = ActivationForm::kPacked, .matvec = matvec<Block>, .matmul = matmul<Block>};
}

template <Expand kExpand, std::size_t kElementBytes>
constexpr LinearKernels float_kernels() {
    return {.form = ActivationForm::kFloat,
            .matvec = float_product<kExpand, kElementBytes>,
            .matmul = float_product<kExpand, kElementBytes>};
}

}  // namespace

LinearKernels linear(quant::QuantType type) {
    using quant::QuantType;
    switch (type) {
        case QuantType::kF32:
            return float_kernels<quant::dequantize_f32, 4>();
        case QuantType::kF16:
            return float_kernels<quant::dequantize_f16, 2>();
        case QuantType::kBF16:
            return float_kernels<quant::dequantize_bf16, 2>();
        case QuantType::kQ4_0:
            return packed_kernels<quant::BlockQ4_0>();
        case QuantType::kQ4_1:
            return packed_kernels<quant::BlockQ4_1>();
        case QuantType::kQ5_0:
            return packed_kernels<quant::BlockQ5_0>();
        case QuantType::kQ5_1:
            return packed_kernels<quant::BlockQ5_1>();
        case QuantType::kQ8_0:
            return packed_kernels<quant::BlockQ8_0>();
        case QuantType::kQ4_K:
            return packed_kernels<quant::BlockQ4_K>();
        case QuantType::kQ5_K:
            return packed_kernels<quant::BlockQ5_K>();
        case QuantType::kQ6_K:
            return packed_kernels<quant::BlockQ6_K>();
        default:
            return {};
    }
}

std::size_t matmul_scratch_bytes(std::size_t k) {
    return packed_groups(k) * sizeof(WeightGroup);
}

void pack(const float* x, std::size_t k, std::byte* out) {
    std::memset(out, 0, packed_column_bytes(k));
    auto* groups = reinterpret_cast<PackedGroup*>(out);
    for (std::size_t block = 0; block < k / kBlockElements; ++block) {
        PackedGroup& group = groups[block / kGroupBlocks];
        const std::size_t b = block % kGroupBlocks;
        const float* values = x + block * kBlockElements;
        float largest = 0.0F;
        for (int i = 0; i < kBlockElements; ++i) {
            largest = std::max(largest, std::fabs(values[i]));
        }
        const float scale = largest / kActivationSteps;
        int sums[2] = {0, 0};
        for (int i = 0; i < kBlockElements; ++i) {
            // The largest of a block of subnormals can round to too many scales; and a scale of
            // zero (all zero, or too small for a float) leaves the zeros.
            const float steps = scale > 0.0F ? std::nearbyint(values[i] / scale) : 0.0F;
            const Planes planes = split_planes(
                static_cast<int>(std::min(std::max(-kActivationSteps, steps), kActivationSteps)));
            const int half = i / kHalfElements;
            group.q[0][half][b][i % kHalfElements] = planes.high;
            group.q[1][half][b][i % kHalfElements] = planes.low;
            const int q = 256 * planes.high + planes.low;
            sums[half] += q;
            group
                .negative_lane_sum[half][b * 4 + static_cast<std::size_t>(i % kHalfElements / 4)] -=
                q;
        }
        group.scale[b] = scale;
        group.scaled_sum[b] = scale * static_cast<float>(sums[0] + sums[1]);
        group.negative_sum[b] = -(sums[0] + sums[1]);
        group.negative_half_sum[0][b] = -sums[0];
        group.negative_half_sum[1][b] = -sums[1];
    }
}

}  // namespace ballast::kernels::scalar
