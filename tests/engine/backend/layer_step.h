// SPDX-License-Identifier: MIT
// A small step for tests of backends: a layer with every op but the embedding, and its memory.
#pragma once

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "engine/backend/backend.h"
#include "engine/base/rng.h"

namespace ballast::backend {

constexpr int kRows = 5;
constexpr int kDecodeRows = 2;
constexpr int kWidth = 64;
constexpr int kHeads = 4;
constexpr int kHeadDim = 16;
constexpr int kFfn = 96;
constexpr int kBlocks = 2;
constexpr int kExperts = 3;

inline std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
    Rng rng(seed);
    std::vector<float> values(n);
    for (float& value : values) {
        value = static_cast<float>(rng.uniform() * 2.0 - 1.0);
    }
    return values;
}

inline std::span<const std::byte> bytes_of(const std::vector<float>& values) {
    return std::as_bytes(std::span(values));
}

/// A layer with every op but the embedding, over slots x h q k v a gate up and the last row.
inline std::vector<OpRecord> layer_ops() {
    const auto all = [](const Op& op) { return OpRecord{.op = op}; };
    return {all(RmsNorm{.in = 0, .out = 1, .weight = 0, .width = kWidth, .epsilon = 1e-5F}),
            all(Linear{.in = 1, .n_matrices = 3, .weights = {1, 2, 3}, .outs = {2, 3, 4}}),
            all(Rope{.q = 2,
                     .k = 3,
                     .n_heads = kHeads,
                     .n_kv_heads = kHeads,
                     .head_dim = kHeadDim,
                     .n_rotated = kHeadDim}),
            all(Attention{.q = 2,
                          .k = 3,
                          .v = 4,
                          .out = 5,
                          .n_heads = kHeads,
                          .n_kv_heads = kHeads,
                          .head_dim = kHeadDim,
                          .scale = 0.25F}),
            all(Linear{.in = 5, .weights = {4}, .outs = {1}}),
            all(Add{.x = 0, .y = 1, .width = kWidth}),
            all(Linear{.in = 0, .n_matrices = 2, .weights = {5, 6}, .outs = {6, 7}}),
            all(GatedActivation{.gate = 6, .up = 7, .out = 6, .width = kFfn}),
            all(Linear{.in = 6, .weights = {7}, .outs = {1}}),
            all(Add{.x = 0, .y = 1, .width = kWidth}),
            all(Router{.in = 0, .choice = 9, .weight = 8, .n_experts = kExperts, .n_used = 2}),
            all(Experts{.in = 0,
                        .choice = 9,
                        .out = 1,
                        .gate = 9,
                        .up = 10,
                        .down = 11,
                        .n_experts = kExperts,
                        .n_used = 2,
                        .width = kWidth,
                        .ffn_width = kFfn}),
            all(Add{.x = 0, .y = 1, .width = kWidth}),
            {.op = GatherOutputs{.in = 0, .out = 8, .width = kWidth}, .rows = RowDomain::kOutputs}};
}

/// The memory of one step on one backend, copied there.
class Step {
  public:
    explicit Step(Backend& backend) : backend_(backend) {
        const std::vector<int> rows_of = {
            1, kWidth, kWidth, kWidth, kWidth, kFfn, kFfn, kWidth, kExperts, kFfn, kFfn, kWidth};
        for (std::size_t i = 0; i < rows_of.size(); ++i) {
            const std::size_t slices = i < 9 ? 1 : kExperts;  // the last three are stacked
            const auto rows = static_cast<std::size_t>(rows_of[i]);
            const std::size_t k = i == 7 || i == 11 ? kFfn : kWidth;
            weights_.push_back({.data = put(random_floats(slices * rows * k, 100 + i)),
                                .n_rows = rows,
                                .k = k,
                                .row_bytes = k * sizeof(float),
                                .n_slices = slices});
        }
        const std::vector<int> widths = {
            kWidth, kWidth, kWidth, kWidth, kWidth, kWidth, kFfn, kFfn, kWidth, 4};
        for (std::size_t i = 0; i < widths.size(); ++i) {
            const auto width = static_cast<std::size_t>(widths[i]);
            slots_.push_back({floats(put(random_floats(kRows * width, i))), width});
        }
        cos_ = floats(put(random_floats(kRows * kHeadDim / 2, 50)));
        sin_ = floats(put(random_floats(kRows * kHeadDim / 2, 51)));
        rope_.push_back({.cos = cos_, .sin = sin_, .half = kHeadDim / 2});
        const std::size_t head_bytes = 32 * kHeadDim * sizeof(float);
        const std::vector<float> empty(kBlocks * kHeads * head_bytes / sizeof(float), 0.0F);
        range_ = {.n_heads = kHeads,
                  .keys = put(empty),
                  .values = put(empty),
                  .block_bytes = kHeads * head_bytes,
                  .head_bytes = head_bytes};
        kv_ = {.type = kernels::KvType::kF32, .ranges = {&range_, 1}};
        EXPECT_TRUE(backend
                        .reserve({.rows = kRows,
                                  .outputs = 1,
                                  .heads = kHeads,
                                  .blocks = kBlocks,
                                  .k = kFfn,
                                  .experts = kExperts,
                                  .experts_used = 2,
                                  .width = kWidth,
                                  .expert_ffn_width = kFfn})
                        .has_value());
    }
    ~Step() {
        for (const Chunk& chunk : chunks_) {
            backend_.free_chunk(chunk);
        }
    }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

    StepContext context() const {
        return {.input = {.tokens = tokens_,
                          .sequences = sequences_,
                          .n_decode_rows = kDecodeRows,
                          .output_rows = outputs_},
                .weights = weights_,
                .slots = slots_,
                .kv = {&kv_, 1},
                .rope = rope_};
    }
    const SlotView& slot(std::size_t i) const { return slots_[i]; }
    /// All memory of it.
    const std::vector<Chunk>& chunks() const { return chunks_; }
    /// The backend ends first and frees its memory itself.
    void leave_memory() { chunks_.clear(); }

    /// All slots, copied back after the event.
    std::vector<float> read(Event after) {
        backend_.order_after(Queue::kCopy, after);
        std::vector<std::vector<float>> parts;
        std::optional<Event> last;
        for (const SlotView& slot : slots_) {
            std::vector<float>& part = parts.emplace_back(kRows * slot.width);
            auto event = backend_.copy_out(std::as_writable_bytes(std::span(part)),
                                           reinterpret_cast<const std::byte*>(slot.data));
            EXPECT_TRUE(event.has_value());
            last = *event;
        }
        EXPECT_TRUE(backend_.wait(*last).has_value());
        std::vector<float> all;
        for (const auto& part : parts) {
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }

  private:
    static float* floats(std::byte* data) { return reinterpret_cast<float*>(data); }
    std::byte* put(const std::vector<float>& values) {
        auto chunk = backend_.allocate_chunk(values.size() * sizeof(float));
        EXPECT_TRUE(chunk.has_value());
        chunks_.push_back(*chunk);
        auto event = backend_.copy_in(chunk->data, bytes_of(values));
        EXPECT_TRUE(event.has_value() && backend_.wait(*event).has_value());
        return chunk->data;
    }

    Backend& backend_;
    std::vector<Chunk> chunks_;
    std::vector<WeightView> weights_;
    std::vector<SlotView> slots_;
    float* cos_ = nullptr;
    float* sin_ = nullptr;
    std::vector<RopeView> rope_;
    KvRangeView range_;
    KvLayerView kv_;
    std::vector<TokenId> tokens_ = std::vector<TokenId>(kRows, 0);
    std::vector<std::int32_t> blocks_ = {1, 0};
    std::vector<std::int32_t> other_blocks_ = {0};
    std::vector<SequenceRows> sequences_ = {
        {.first_row = 0, .n_rows = 1, .first_position = 40, .blocks = blocks_},
        {.first_row = 1, .n_rows = 4, .first_position = 3, .blocks = other_blocks_}};
    std::vector<std::int32_t> outputs_ = {4};
};

inline const kernels::KernelTable& scalar() {
    return *kernels::find_kernels(Isa::kScalar);
}

}  // namespace ballast::backend
