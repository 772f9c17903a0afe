// SPDX-License-Identifier: MIT
// Attention of one row at a time by the online softmax: per block of 32 keys the running maximum m,
// sum l and output o are rescaled by exp(m_old − m_new) and the block's part is added.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/kernels/cpu/scalar.h"
#include "engine/kernels/cpu/tables.h"
#include "engine/quant/dequantize.h"

namespace ballast::kernels::scalar {
namespace {

/// Key or value `slot` of a block as float32[head_dim].
void load_kv(const AttentionArgs& args, const std::byte* block, int slot, float* out) {
    const std::size_t first = static_cast<std::size_t>(slot) * args.head_dim;
    if (args.kv_type == KvType::kF32) {
        std::memcpy(out, block + first * sizeof(float), args.head_dim * sizeof(float));
    } else {
        quant::dequantize_f16(block + first * sizeof(std::uint16_t), args.head_dim, out);
    }
}

float score(const AttentionArgs& args, const float* q, const std::byte* keys, int slot) {
    float key[kHeadDimMax];
    load_kv(args, keys, slot, key);
    float dot = 0.0F;
    for (std::size_t d = 0; d < args.head_dim; ++d) {
        dot += q[d] * key[d];
    }
    const float scaled = dot * args.scale;
    return args.soft_cap > 0.0F ? args.soft_cap * std::tanh(scaled / args.soft_cap) : scaled;
}

void attend_row(const AttentionArgs& args, const float* q, std::int64_t position, float* out) {
    const std::int64_t first =
        args.window > 0 ? std::max<std::int64_t>(0, position - args.window + 1) : 0;
    float m = -std::numeric_limits<float>::infinity();
    float l = 0.0F;
    float o[kHeadDimMax] = {};
    for (std::int64_t b = first / kKvBlockTokens; b <= position / kKvBlockTokens; ++b) {
        const std::int64_t base = b * kKvBlockTokens;
        const int begin = static_cast<int>(std::max(first, base) - base);
        const int end =
            static_cast<int>(std::min<std::int64_t>(position - base + 1, kKvBlockTokens));
        float p[kKvBlockTokens];
        float m_new = m;
        for (int slot = begin; slot < end; ++slot) {
            p[slot] = score(args, q, args.key_blocks[b], slot);
            m_new = std::max(m_new, p[slot]);
        }
        const float correction = std::exp(m - m_new);
        l *= correction;
        for (std::size_t d = 0; d < args.head_dim; ++d) {
            o[d] *= correction;
        }
        for (int slot = begin; slot < end; ++slot) {
            const float weight = std::exp(p[slot] - m_new);
            l += weight;
            float value[kHeadDimMax];
            load_kv(args, args.value_blocks[b], slot, value);
            for (std::size_t d = 0; d < args.head_dim; ++d) {
                o[d] += weight * value[d];
            }
        }
        m = m_new;
    }
    for (std::size_t d = 0; d < args.head_dim; ++d) {
        out[d] = o[d] / l;
    }
}

}  // namespace

void attention(const AttentionArgs& args) {
    for (int t = 0; t < args.n_tokens; ++t) {
        for (int h = 0; h < args.n_heads; ++h) {
            const std::size_t token = static_cast<std::size_t>(t);
            const std::size_t head = static_cast<std::size_t>(h);
            attend_row(args,
                       args.q + token * args.q_token_stride + head * args.q_head_stride,
                       args.first_position + t,
                       args.out + token * args.out_token_stride + head * args.out_head_stride);
        }
    }
}

}  // namespace ballast::kernels::scalar
