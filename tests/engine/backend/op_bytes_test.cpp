// SPDX-License-Identifier: MIT
// What is said of an op's bytes is what its kernels do: nothing else changes, and nothing else
// matters to the result.
#include "engine/backend/op_bytes.h"

#include <cstring>

#include <gtest/gtest.h>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/op_access.h"
#include "tests/engine/backend/layer_step.h"

namespace ballast::backend {
namespace {

/// The layer's ops and what it has none of: an embedding, a window, ops on output rows alone.
std::vector<OpRecord> all_kinds() {
    std::vector<OpRecord> ops = layer_ops();
    ops.push_back({.op = Embed{.table = 1, .out = 2, .scale = 2.0F}});
    OpRecord windowed = ops[3];
    std::get<Attention>(windowed.op).window = 5;
    ops.push_back(windowed);
    ops.push_back(
        {.op = Linear{.in = 8, .weights = {5}, .outs = {6}}, .rows = RowDomain::kOutputs});
    return ops;
}

using Memory = std::vector<std::vector<std::byte>>;

Memory snapshot(const Step& step) {
    Memory memory;
    for (const Chunk& chunk : step.chunks()) {
        memory.emplace_back(chunk.data, chunk.data + chunk.size_bytes);
    }
    return memory;
}

/// Which bytes of the step's memory are read, or written.
std::vector<std::vector<bool>> marks(const Step& step, const OpRecord& op, bool writes) {
    std::vector<Touch> touches;
    append_touches(op, step.context(), touches);
    std::vector<std::vector<bool>> marked;
    std::size_t n_found = 0;
    for (const Chunk& chunk : step.chunks()) {
        auto& bytes = marked.emplace_back(chunk.size_bytes);
        for (const Touch& touch : touches) {
            const std::byte* first = touch.bytes.data;
            if (first < chunk.data || first >= chunk.data + chunk.size_bytes) {
                continue;
            }
            ++n_found;
            const auto offset = static_cast<std::size_t>(first - chunk.data);
            EXPECT_LE(offset + touch.bytes.extent(), chunk.size_bytes);
            for (std::size_t row = 0; row < touch.bytes.n_rows; ++row) {
                for (std::size_t i = 0; i < touch.bytes.row_bytes; ++i) {
                    if (touch.writes == writes) {
                        bytes[offset + row * touch.bytes.stride + i] = true;
                    }
                }
            }
        }
    }
    EXPECT_EQ(n_found, touches.size()) << "a touch is outside the step's memory";
    return marked;
}

/// The CPU and a step on it.
struct OneCpu {
    ThreadPool pool{1};
    CpuBackend cpu{scalar(), pool};
    Step step{cpu};
};

TEST(OpBytes, HoldAllThatAnOpChangesAndAllThatItDependsOn) {
    OneCpu plain;
    OneCpu scrambled;
    for (const OpRecord& op : all_kinds()) {
        const char* name = name_of(op.op);
        const auto reads = marks(plain.step, op, false);
        const auto writes = marks(plain.step, op, true);
        const Memory before = snapshot(plain.step);
        ASSERT_TRUE(plain.cpu.submit({&op, 1}, plain.step.context()).has_value());
        const Memory after = snapshot(plain.step);
        for (std::size_t i = 0; i < before.size(); ++i) {
            for (std::size_t at = 0; at < before[i].size(); ++at) {
                ASSERT_TRUE(before[i][at] == after[i][at] || writes[i][at])
                    << name << " changes byte " << at << " of chunk " << i;
            }
        }
        // The other one has the same bytes where the op is said to read, and junk elsewhere.
        const auto& chunks = scrambled.step.chunks();
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            for (std::size_t at = 0; at < before[i].size(); ++at) {
                chunks[i].data[at] = reads[i][at] ? before[i][at] : std::byte{0xFF};
            }
        }
        ASSERT_TRUE(scrambled.cpu.submit({&op, 1}, scrambled.step.context()).has_value());
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            for (std::size_t at = 0; at < before[i].size(); ++at) {
                ASSERT_TRUE(!writes[i][at] || chunks[i].data[at] == after[i][at])
                    << name << " gives another byte " << at << " of chunk " << i;
            }
        }
    }
}

TEST(OpBytes, AreOfTheSlotsThatTheOpIsKnownToAccess) {
    OneCpu one;
    for (const OpRecord& op : all_kinds()) {
        const OpAccess access(op.op);
        const auto reads = marks(one.step, op, false);
        const auto writes = marks(one.step, op, true);
        for (std::size_t slot = 0; slot < one.step.context().slots.size(); ++slot) {
            const auto* data = reinterpret_cast<const std::byte*>(one.step.slot(slot).data);
            std::size_t chunk = 0;
            while (one.step.chunks()[chunk].data != data) {
                ++chunk;
            }
            const auto known = [&](std::span<const SlotId> slots) {
                return std::find(slots.begin(), slots.end(), static_cast<SlotId>(slot)) !=
                       slots.end();
            };
            const auto any = [&](const std::vector<bool>& marked) {
                return std::find(marked.begin(), marked.end(), true) != marked.end();
            };
            EXPECT_EQ(any(reads[chunk]), known(access.reads())) << name_of(op.op) << slot;
            EXPECT_EQ(any(writes[chunk]), known(access.writes())) << name_of(op.op) << slot;
        }
    }
}

TEST(OpBytes, AreNotThoseOfSlicesThatHoldNoExpert) {
    OneCpu one;
    const OpRecord op = layer_ops()[11];
    const auto& experts = std::get<Experts>(op.op);
    StepContext context = one.step.context();
    // The middle slice is empty: its expert is on its way, and another one is not here.
    const std::vector<std::int32_t> slice_of = {2, -1, 0};
    const std::vector<ExpertSlices> slices = {{.slice_of = slice_of}};
    context.experts = slices;
    std::vector<Touch> touches;
    append_touches(op, context, touches);
    for (const UnitId unit : {experts.gate, experts.up, experts.down}) {
        const WeightView& view = context.weights[static_cast<std::size_t>(unit)];
        std::vector<bool> read(kExperts);
        for (const Touch& touch : touches) {
            for (std::size_t i = 0; i < kExperts; ++i) {
                const std::byte* const slice = view.data + i * view.slice_bytes();
                const bool whole =
                    touch.bytes.data <= slice &&
                    slice + view.slice_bytes() <= touch.bytes.data + touch.bytes.extent();
                const bool any = touch.bytes.data < slice + view.slice_bytes() &&
                                 slice < touch.bytes.data + touch.bytes.extent();
                EXPECT_EQ(whole, any) << "slice " << i;
                read[i] = read[i] || any;
            }
        }
        EXPECT_EQ(read, (std::vector<bool>{true, false, true}));
    }
}

TEST(OpBytes, AreOnlyThePositionsThatAnAttentionLooksAt) {
    OneCpu one;
    const OpRecord op = all_kinds()[layer_ops().size() + 1];
    ASSERT_EQ(std::get<Attention>(op.op).window, 5);
    const KvRangeView& range = one.step.context().kv[0].ranges[0];
    std::size_t chunk = 0;
    while (one.step.chunks()[chunk].data != range.keys) {
        ++chunk;
    }
    const auto reads = marks(one.step, op, false)[chunk];
    const auto writes = marks(one.step, op, true)[chunk];
    // One sequence writes position 40 and sees [36, 41), in blocks 1 and 0: block 0, tokens 4..8;
    // the other one writes [3, 7) and sees [0, 7), in block 0.
    const std::size_t token_bytes = range.head_bytes / kernels::kKvBlockTokens;
    for (std::size_t at = 0; at < reads.size(); ++at) {
        const std::size_t block = at / range.block_bytes;
        const std::size_t token = at % range.head_bytes / token_bytes;
        EXPECT_EQ(reads[at], block == 0 && token < 9) << at;
        EXPECT_EQ(writes[at], block == 0 && ((token >= 3 && token < 7) || token == 8)) << at;
    }
}

}  // namespace
}  // namespace ballast::backend
