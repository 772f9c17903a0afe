// SPDX-License-Identifier: MIT
// Attention over paged keys and values. The rows' keys and values are stored first; then each item
// (a sequence's tile of query tokens, for one key-value head) is computed by one thread.
#include <algorithm>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/cpu_parallel.h"
#include "engine/base/check.h"

namespace ballast::backend {

namespace {

// Query tokens that share one pass over the keys: enough to reuse a block from the first-level
// cache, few enough that the last tiles still balance among threads.
constexpr int kTileTokens = 32;

const KvRangeView& range_of(const KvLayerView& layer, int head) {
    for (const KvRangeView& range : layer.ranges) {
        if (head >= range.first_head && head < range.first_head + range.n_heads) {
            return range;
        }
    }
    check_failed("a KV range covers the head", __FILE__, __LINE__);
}

std::size_t head_offset(const KvRangeView& range, std::int32_t block, int head) {
    return index_of(block) * range.block_bytes +
           index_of(head - range.first_head) * range.head_bytes;
}

}  // namespace

void CpuBackend::run(const Attention& op, Rows /*rows*/, const StepContext& context) {
    store_kv(op, context);
    attend(op, context);
}

void CpuBackend::store_kv(const Attention& op, const StepContext& context) {
    const KvLayerView& layer = context.kv[index_of(op.layer)];
    const SlotView& k = context.slots[index_of(op.k)];
    const SlotView& v = context.slots[index_of(op.v)];
    const auto head_dim = index_of(op.head_dim);
    for (const SequenceRows& sequence : context.input.sequences) {
        for_each(sequence.n_rows, 2 * k.width, [&](int i) {
            const std::int64_t position = sequence.first_position + i;
            const auto row = index_of(sequence.first_row + i);
            const std::int32_t block =
                sequence.blocks[index_of(position / kernels::kKvBlockTokens)];
            const auto token = index_of(position % kernels::kKvBlockTokens);
            for (int head = 0; head < op.n_kv_heads; ++head) {
                const int cached = op.first_kv_head + head;
                const KvRangeView& range = range_of(layer, cached);
                const std::size_t offset = head_offset(range, block, cached) +
                                           token * (range.head_bytes / kernels::kKvBlockTokens);
                const std::size_t first = index_of(head) * head_dim;
                kernels_.store_kv(k.row(row) + first, head_dim, layer.type, range.keys + offset);
                kernels_.store_kv(v.row(row) + first, head_dim, layer.type, range.values + offset);
            }
        });
    }
}

void CpuBackend::attend(const Attention& op, const StepContext& context) {
    const int group = op.n_heads / op.n_kv_heads;
    attention_items_.clear();
    for (const SequenceRows& sequence : context.input.sequences) {
        // A lone token of a model with few key-value heads is shared by query heads instead.
        const bool by_head = sequence.n_rows == 1 && op.n_kv_heads < pool_.size();
        const int heads_each = by_head ? 1 : group;
        // Later tiles see more keys; the longest go first.
        for (int first = (sequence.n_rows - 1) / kTileTokens * kTileTokens; first >= 0;
             first -= kTileTokens) {
            for (int kv_head = 0; kv_head < op.n_kv_heads; ++kv_head) {
                for (int head = 0; head < group; head += heads_each) {
                    attention_items_.push_back(
                        {.sequence = &sequence,
                         .first = first,
                         .n_tokens = std::min(kTileTokens, sequence.n_rows - first),
                         .kv_head = kv_head,
                         .head = kv_head * group + head,
                         .n_heads = heads_each});
                }
            }
        }
    }
    share_items(static_cast<int>(attention_items_.size()), [&](int item, int thread) {
        attend_item(op, context, attention_items_[index_of(item)], scratch_[index_of(thread)]);
    });
}

void CpuBackend::attend_item(const Attention& op,
                             const StepContext& context,
                             const AttentionItem& item,
                             ThreadScratch& scratch) {
    const KvLayerView& layer = context.kv[index_of(op.layer)];
    const int cached = op.first_kv_head + item.kv_head;
    const KvRangeView& range = range_of(layer, cached);
    const SlotView& q = context.slots[index_of(op.q)];
    const SlotView& out = context.slots[index_of(op.out)];
    const std::int64_t first_position = item.sequence->first_position + item.first;
    const auto n_blocks =
        index_of((first_position + item.n_tokens - 1) / kernels::kKvBlockTokens + 1);
    for (std::size_t i = 0; i < n_blocks; ++i) {
        const std::size_t offset = head_offset(range, item.sequence->blocks[i], cached);
        scratch.key_blocks[i] = range.keys + offset;
        scratch.value_blocks[i] = range.values + offset;
    }
    const auto head_dim = index_of(op.head_dim);
    const auto row = index_of(item.sequence->first_row + item.first);
    kernels_.attention({.kv_type = layer.type,
                        .key_blocks = scratch.key_blocks.data(),
                        .value_blocks = scratch.value_blocks.data(),
                        .head_dim = head_dim,
                        .q = q.row(row) + index_of(item.head) * head_dim,
                        .q_token_stride = q.width,
                        .q_head_stride = head_dim,
                        .out = out.row(row) + index_of(item.head) * head_dim,
                        .out_token_stride = out.width,
                        .out_head_stride = head_dim,
                        .n_tokens = item.n_tokens,
                        .n_heads = item.n_heads,
                        .first_position = first_position,
                        .window = op.window,
                        .scale = op.scale,
                        .scratch = scratch.kernel.data()});
}

}  // namespace ballast::backend
