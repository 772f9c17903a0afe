// SPDX-License-Identifier: MIT
// Layers of keys and values side by side in the probes' memory, visited in turn.
#include "engine/runtime/attention_probe.h"

#include <algorithm>
#include <numeric>

#include "engine/base/check.h"

namespace ballast::runtime {

namespace {

constexpr std::size_t kElementBytes = 2;  // float16

/// Keys, or values, of one layer.
std::size_t half_bytes(const AttentionShape& shape) {
    return kElementBytes * static_cast<std::size_t>(AttentionProbe::kPositions) *
           static_cast<std::size_t>(shape.n_kv_heads) * static_cast<std::size_t>(shape.head_dim);
}

}  // namespace

bool AttentionProbe::fits(const AttentionShape& shape) {
    return 2 * half_bytes(shape) <= ProbeMemory::kSegmentBytes;
}

AttentionProbe::AttentionProbe(ProbeStep& step,
                               ProbeMemory& memory,
                               const AttentionShape& shape,
                               int tokens,
                               const Clock& clock)
    : step_(step), shape_(shape), tokens_(tokens), clock_(clock), blocks_(kBlocks) {
    BALLAST_CHECK(fits(shape) && tokens <= kPositions);
    std::iota(blocks_.begin(), blocks_.end(), 0);
    const std::size_t half = half_bytes(shape);
    for (std::size_t i = 0; i < memory.n_segments(); ++i) {
        const std::span<std::byte> bytes = std::as_writable_bytes(memory.segment(i));
        for (std::size_t at = 0; at + 2 * half <= bytes.size(); at += 2 * half) {
            layers_.push_back(
                {.first_head = 0,
                 .n_heads = shape.n_kv_heads,
                 .keys = bytes.data() + at,
                 .values = bytes.data() + at + half,
                 .block_bytes = half / kBlocks,
                 .head_bytes = half / kBlocks / static_cast<std::size_t>(shape.n_kv_heads)});
        }
    }
}

Result<Sample> AttentionProbe::sample() {
    const backend::Attention op{.q = 0,
                                .k = 1,
                                .v = 1,
                                .out = 2,
                                .layer = 0,
                                .n_heads = shape_.n_heads,
                                .n_kv_heads = shape_.n_kv_heads,
                                .head_dim = shape_.head_dim,
                                .scale = 0.01F};
    const double pairs = static_cast<double>(tokens_) * (kPositions - 0.5 * (tokens_ - 1));
    Sample sample;
    const Nanoseconds begin = clock_.now();
    while (sample.seconds < to_seconds(kSampleTarget)) {
        const backend::KvLayerView layer{.type = kernels::KvType::kF16,
                                         .ranges = {&layers_[layer_], 1}};
        BALLAST_TRY_STATUS(step_.attend(op, layer, blocks_, kPositions - tokens_, tokens_));
        sample.bytes += 2.0 * static_cast<double>(half_bytes(shape_));
        sample.flops += 4.0 * pairs * shape_.n_heads * shape_.head_dim;
        sample.seconds = to_seconds(clock_.now() - begin);
        layer_ = (layer_ + 1) % layers_.size();
    }
    return sample;
}

}  // namespace ballast::runtime
