// SPDX-License-Identifier: MIT
// A router and its experts in F32, on any backend, with all experts there or with some of them in
// slots: what the tests of experts share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "engine/backend/backend.h"
#include "engine/backend/expert_choice.h"
#include "engine/base/rng.h"

namespace ballast::test {

constexpr std::size_t kLayerWidth = 32;
constexpr std::size_t kLayerFfn = 48;
constexpr std::size_t kLayerExperts = 11;
/// Three would do: with two, any split gives the bits of the whole.
constexpr std::size_t kLayerUsed = 4;
constexpr std::size_t kLayerRows = 9;

inline std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
    Rng rng(seed);
    std::vector<float> values(n);
    for (float& value : values) {
        value = static_cast<float>(rng.uniform() * 2.0 - 1.0);
    }
    return values;
}

struct ExpertWeights {
    std::vector<float> router = random_floats(kLayerExperts * kLayerWidth, 1);
    std::vector<float> gate = random_floats(kLayerExperts * kLayerFfn * kLayerWidth, 2);
    std::vector<float> up = random_floats(kLayerExperts * kLayerFfn * kLayerWidth, 3);
    std::vector<float> down = random_floats(kLayerExperts * kLayerWidth * kLayerFfn, 4);
};

inline backend::OpRecord router_op() {
    return {
        .op = backend::Router{
            .in = 0, .choice = 1, .weight = 0, .n_experts = kLayerExperts, .n_used = kLayerUsed}};
}

/// Of layer 1, so that the slices of the right layer must be taken.
inline backend::OpRecord experts_op() {
    return {.op = backend::Experts{.in = 0,
                                   .choice = 1,
                                   .out = 2,
                                   .gate = 1,
                                   .up = 2,
                                   .down = 3,
                                   .layer = 1,
                                   .n_experts = kLayerExperts,
                                   .n_used = kLayerUsed,
                                   .width = kLayerWidth,
                                   .ffn_width = kLayerFfn}};
}

/// Once a backend: what one op leaves in its scratch is there for the next one to mistake.
inline void reserve_layer(backend::Backend& backend) {
    EXPECT_TRUE(backend
                    .reserve({.rows = kLayerRows,
                              .outputs = 1,
                              .blocks = 1,
                              .k = kLayerFfn,
                              .experts = kLayerExperts,
                              .experts_used = kLayerUsed,
                              .width = kLayerWidth,
                              .expert_ffn_width = kLayerFfn})
                    .has_value());
}

/// The layer's memory on one backend: slots 0 x, 1 the choice, 2 y.
class ExpertSide {
  public:
    /// All experts, without a view that says so.
    ExpertSide(backend::Backend& backend, const ExpertWeights& w) : ExpertSide(backend, w, all()) {
        slices_.clear();
    }
    /// Those in `held`, in slots in this order.
    ExpertSide(backend::Backend& backend, const ExpertWeights& w, const std::vector<int>& held)
        : backend_(backend), slice_of_(kLayerExperts, -1), nothing_(kLayerExperts, -1) {
        for (std::size_t slice = 0; slice < held.size(); ++slice) {
            slice_of_[static_cast<std::size_t>(held[slice])] = static_cast<std::int32_t>(slice);
        }
        slices_ = {{.slice_of = nothing_}, {.slice_of = slice_of_}};
        add_weight(w.router, kLayerExperts, kLayerWidth, 1);
        add_weight(pick(w.gate, held), kLayerFfn, kLayerWidth, held.size());
        add_weight(pick(w.up, held), kLayerFfn, kLayerWidth, held.size());
        add_weight(pick(w.down, held), kLayerWidth, kLayerFfn, held.size());
        for (const std::size_t width :
             {kLayerWidth, std::size_t{backend::choice_width(kLayerUsed)}, kLayerWidth}) {
            // What was there before is anything.
            slots_.push_back(
                {reinterpret_cast<float*>(put(std::vector<float>(kLayerRows * width, -1e30F))),
                 width});
        }
    }
    ~ExpertSide() {
        for (const backend::Chunk& chunk : chunks_) {
            backend_.free_chunk(chunk);
        }
    }
    ExpertSide(const ExpertSide&) = delete;
    ExpertSide& operator=(const ExpertSide&) = delete;

    static std::vector<int> all() {
        std::vector<int> experts(kLayerExperts);
        for (std::size_t i = 0; i < kLayerExperts; ++i) {
            experts[i] = static_cast<int>(i);
        }
        return experts;
    }
    void write(std::size_t slot, const std::vector<float>& values) {
        const auto event = backend_.copy_in(reinterpret_cast<std::byte*>(slots_[slot].data),
                                            std::as_bytes(std::span(values)));
        EXPECT_TRUE(event.has_value() && backend_.wait(*event).has_value());
    }
    std::vector<float> read(std::size_t slot) {
        std::vector<float> values(kLayerRows * slots_[slot].width);
        const auto event = backend_.copy_out(std::as_writable_bytes(std::span(values)),
                                             reinterpret_cast<const std::byte*>(slots_[slot].data));
        EXPECT_TRUE(event.has_value() && backend_.wait(*event).has_value());
        return values;
    }
    backend::StepContext context(int n_decode) const {
        return {.input = {.tokens = tokens_, .n_decode_rows = n_decode},
                .weights = weights_,
                .slots = slots_,
                .experts = slices_};
    }
    backend::Event submit(std::span<const backend::OpRecord> ops, int n_decode) {
        const auto event = backend_.submit(ops, context(n_decode));
        EXPECT_TRUE(event.has_value());
        return *event;
    }
    void run(std::span<const backend::OpRecord> ops, int n_decode) {
        EXPECT_TRUE(backend_.wait(submit(ops, n_decode)).has_value());
    }
    const backend::SlotView& slot(std::size_t i) const { return slots_[i]; }
    backend::Backend& backend() const { return backend_; }

  private:
    static std::vector<float> pick(const std::vector<float>& stacked,
                                   const std::vector<int>& experts) {
        const std::size_t size = stacked.size() / kLayerExperts;
        std::vector<float> picked;
        for (const int expert : experts) {
            const float* slice = stacked.data() + static_cast<std::size_t>(expert) * size;
            picked.insert(picked.end(), slice, slice + size);
        }
        return picked;
    }
    /// Nothing where there is nothing.
    std::byte* put(const std::vector<float>& values) {
        if (values.empty()) {
            return nullptr;
        }
        const auto chunk = backend_.allocate_chunk(values.size() * sizeof(float));
        EXPECT_TRUE(chunk.has_value());
        chunks_.push_back(*chunk);
        const auto event = backend_.copy_in(chunk->data, std::as_bytes(std::span(values)));
        EXPECT_TRUE(event.has_value() && backend_.wait(*event).has_value());
        return chunk->data;
    }
    void add_weight(const std::vector<float>& values,
                    std::size_t rows,
                    std::size_t k,
                    std::size_t slices) {
        weights_.push_back({.data = put(values),
                            .n_rows = rows,
                            .k = k,
                            .row_bytes = k * sizeof(float),
                            .n_slices = slices});
    }

    backend::Backend& backend_;
    std::vector<backend::Chunk> chunks_;
    std::vector<backend::WeightView> weights_;
    std::vector<backend::SlotView> slots_;
    std::vector<std::int32_t> slice_of_;
    std::vector<std::int32_t> nothing_;
    std::vector<backend::ExpertSlices> slices_;
    std::vector<TokenId> tokens_ = std::vector<TokenId>(kLayerRows, 0);
};

}  // namespace ballast::test
