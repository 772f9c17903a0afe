// SPDX-License-Identifier: MIT
// The probes' arithmetic under clocks that a test owns: what is counted, not how fast it goes.
#include "engine/runtime/probes.h"

#include <gtest/gtest.h>

#include "engine/backend/host_backend.h"
#include "engine/runtime/attention_probe.h"
#include "engine/runtime/link_probe.h"
#include "tests/engine/runtime/manual_clock.h"

namespace ballast::runtime {
namespace {

using std::chrono::milliseconds;
using test::SteppingClock;

constexpr std::size_t kMiB = std::size_t{1} << 20U;

void take_all(ProbeMemory& memory) {
    while (memory.grow()) {
    }
}

backend::WeightView made_up(ProbeMemory& memory,
                            quant::QuantType type,
                            std::size_t n_rows,
                            std::size_t k) {
    return {.type = type,
            .data = std::as_bytes(memory.segment(0)).data(),
            .n_rows = n_rows,
            .k = k,
            .row_bytes = quant::row_bytes(type, k)};
}

struct Machine {
    Machine() { take_all(memory); }

    ThreadPool pool{2};
    ProbeMemory memory{2 * ProbeMemory::kSegmentBytes};
    const kernels::KernelTable& kernels = **kernels::choose_kernels("");
};

TEST(Probes, MemoryIsTakenPieceByPiece) {
    ProbeMemory memory(3 * ProbeMemory::kSegmentBytes);
    EXPECT_EQ(memory.n_segments(), 3U);
    EXPECT_EQ(memory.n_taken(), 0U);
    EXPECT_TRUE(memory.grow());
    EXPECT_TRUE(memory.grow());
    EXPECT_FALSE(memory.grow());
    EXPECT_EQ(memory.n_taken(), 3U);
    EXPECT_FALSE(memory.grow());
    EXPECT_EQ(memory.n_taken(), 3U);
    EXPECT_NE(memory.segment(0)[0], memory.segment(1)[0]);
}

TEST(Probes, ReadsAsMuchAsThePaceFillsAndNoMoreThanThereIs) {
    Machine machine;
    const SteppingClock clock(milliseconds(1));
    for (ThreadPool* pool : {&machine.pool, static_cast<ThreadPool*>(nullptr)}) {
        ReadProbe probe(machine.memory, pool, clock);
        // 20 ms at the 1 GB/s that is assumed, in whole MiB.
        const Result<Sample> first = probe.sample();
        ASSERT_TRUE(first);
        EXPECT_EQ(first->bytes, 19.0 * kMiB);
        EXPECT_DOUBLE_EQ(first->seconds, 1e-3);
        EXPECT_NEAR(first->gbps(), 19.9, 0.1);
        const Result<Sample> second = probe.sample();
        ASSERT_TRUE(second);
        EXPECT_EQ(second->bytes, 32.0 * kMiB);
    }
}

TEST(Probes, CopiesHalfOfTheMemoryAtMostAndReallyCopies) {
    Machine machine;
    const SteppingClock clock(milliseconds(1));
    CopyProbe probe(machine.memory, clock);
    ASSERT_NE(machine.memory.segment(0)[5], machine.memory.segment(1)[5]);
    const Result<Sample> first = probe.sample();
    ASSERT_TRUE(first);
    EXPECT_EQ(first->bytes, 16.0 * kMiB);
    EXPECT_EQ(machine.memory.segment(0)[5], machine.memory.segment(1)[5]);
}

TEST(Probes, TouchesEverythingOnce) {
    Machine machine;
    const SteppingClock clock(milliseconds(1));
    const std::vector<backend::WeightView> matrices = {
        made_up(machine.memory, quant::QuantType::kQ8_0, 1000, 4096),
        made_up(machine.memory, quant::QuantType::kQ8_0, 3, 32)};
    TouchProbe probe(matrices, clock);
    double bytes = 0.0;
    for (int i = 0; i < 100; ++i) {
        const Result<Sample> sample = probe.sample();
        ASSERT_TRUE(sample);
        bytes += sample->bytes;
        if (sample->bytes == 0.0) {
            break;
        }
    }
    EXPECT_EQ(bytes, 1000.0 * 4096 / 32 * 34 + 3 * 34);
}

TEST(Probes, CountsBytesOnceAndAMultiplyAddAsTwo) {
    Machine machine;
    // So slow that a sample is one piece.
    const SteppingClock clock(milliseconds(21));
    for (const int tokens : {1, 8, 64}) {
        ProbeStep step(machine.kernels, machine.pool);
        ASSERT_TRUE(step.reserve({.rows = 64, .k = 256}));
        step.pace[quant::QuantType::kQ8_0] = 1e9;
        const backend::WeightView matrix =
            made_up(machine.memory, quant::QuantType::kQ8_0, 48, 256);
        LinearProbe probe(step, {matrix}, tokens, clock);
        const Result<Sample> sample = probe.sample();
        ASSERT_TRUE(sample) << sample.error().message;
        EXPECT_EQ(sample->bytes, 48.0 * 256 / 32 * 34);
        EXPECT_EQ(sample->flops, 2.0 * 48 * 256 * tokens);
        EXPECT_DOUBLE_EQ(sample->seconds, 0.021);
    }
}

TEST(Probes, WalksThroughAllRowsOfAllMatrices) {
    Machine machine;
    // 2 ms a piece: a sample is ten pieces.
    const SteppingClock clock(milliseconds(2));
    ProbeStep step(machine.kernels, machine.pool);
    ASSERT_TRUE(step.reserve({.rows = 8, .k = 4096}));
    const backend::WeightView large = made_up(machine.memory, quant::QuantType::kQ8_0, 3600, 4096);
    const backend::WeightView small = made_up(machine.memory, quant::QuantType::kQ8_0, 7, 32);
    LinearProbe probe(step, {large, small}, 1, clock);
    // 8 MiB are 1927 rows; the warm-up is a piece of its own, of fewer rows.
    const double all = static_cast<double>(large.slice_bytes() + small.slice_bytes());
    double bytes = 0.0;
    for (int i = 0; i < 3; ++i) {
        const Result<Sample> sample = probe.sample();
        ASSERT_TRUE(sample);
        EXPECT_NEAR(sample->seconds, 0.020, 1e-9);
        bytes += sample->bytes;
    }
    // Thirty pieces of at most three or four a round, and never the same rows twice in one.
    EXPECT_GT(bytes, 7 * all);
    EXPECT_LT(bytes, 15 * all);
}

TEST(Probes, LeavesOutWhatWouldTakeTooLong) {
    Machine machine;
    // As if multiplying 64 rows of 4096 by one column took 50 ms.
    const SteppingClock clock(milliseconds(50));
    ProbeStep step(machine.kernels, machine.pool);
    ASSERT_TRUE(step.reserve({.rows = 512, .k = 4096}));
    const backend::WeightView matrix = made_up(machine.memory, quant::QuantType::kQ8_0, 512, 4096);
    const Result<Sample> sample = LinearProbe(step, {matrix}, 512, clock).sample();
    ASSERT_FALSE(sample);
    EXPECT_EQ(sample.error().code, ErrorCode::kUnsupported);
    EXPECT_TRUE(LinearProbe(step, {matrix}, 1, clock).sample());
}

TEST(Probes, CountsTheCacheThatAttentionReads) {
    Machine machine;
    const SteppingClock clock(milliseconds(21));
    ProbeStep step(machine.kernels, machine.pool);
    const AttentionShape shape{.n_heads = 6, .n_kv_heads = 2, .head_dim = 64};
    ASSERT_TRUE(AttentionProbe::fits(shape));
    ASSERT_TRUE(
        step.reserve({.rows = 64, .heads = 6, .blocks = AttentionProbe::kBlocks, .k = 6 * 64}));
    for (const int tokens : {1, 64}) {
        AttentionProbe probe(step, machine.memory, shape, tokens, clock);
        const Result<Sample> sample = probe.sample();
        ASSERT_TRUE(sample) << sample.error().message;
        EXPECT_EQ(sample->bytes, 1024.0 * 2 * 2 * 64 * 2);
        double pairs = 0.0;
        for (int i = 0; i < tokens; ++i) {
            pairs += 1024 - i;
        }
        EXPECT_EQ(sample->flops, 4.0 * pairs * 6 * 64);
    }
    EXPECT_FALSE(AttentionProbe::fits({.n_heads = 128, .n_kv_heads = 128, .head_dim = 128}));
}

TEST(Probes, MeasuresALinkThroughTheInterfaceAlone) {
    Machine machine;
    const SteppingClock clock(milliseconds(1));
    // The CPU stands in for a device: its copies end when they are made.
    backend::CpuBackend device(machine.kernels, machine.pool);
    ThreadPool others(2);
    const Result<LinkRates> rates = measure_link(device, machine.memory, others, clock);
    ASSERT_TRUE(rates) << rates.error().message;
    // A copy is two looks at the clock, 1 ms. It starts at 4 tiles of 4 MiB, 16.8 GB/s, and then
    // the pace asks for 80 tiles in that millisecond, and at last for the most, 256.
    EXPECT_NEAR(rates->copy_in_gbps, 256 * 4.194304, 1e-6);
    EXPECT_GT(rates->together_gbps, 256 * 4.194304 / 3.0);
    EXPECT_DOUBLE_EQ(rates->hop_us, 500.0);
}

TEST(Probes, NeverFindADeviceFasterThanItIs) {
    Machine machine;
    const SystemClock clock;
    const Nanoseconds latency = std::chrono::microseconds(200);
    backend::HostBackend device(
        machine.kernels, clock, {.pace = {.link_gbps = 2.0, .latency = latency}});
    const Result<LinkRates> rates = measure_link(device, machine.memory, machine.pool, clock);
    ASSERT_TRUE(rates) << rates.error().message;
    // It is paced: a copy takes its modelled time or longer.
    EXPECT_GT(rates->copy_in_gbps, 0.0);
    EXPECT_LE(rates->copy_in_gbps, 2.0);
    EXPECT_GT(rates->together_gbps, 0.0);
    // There and back are two copies and an op, each with the latency.
    EXPECT_GE(rates->hop_us, 1.5 * 200.0);
    EXPECT_EQ(device.used_bytes(), 0U);
}

/// A device whose copies fail.
class BrokenDevice final : public backend::Backend {
  public:
    DeviceId device() const override { return DeviceId{1}; }
    std::string name() const override { return "broken"; }
    bool supports(const backend::Op&, quant::QuantType) const override { return true; }
    Status reserve(const backend::StepLimits&) override { return {}; }
    Result<backend::Chunk> allocate_chunk(std::size_t size_bytes) override {
        ++n_chunks;
        return backend::Chunk{memory_.data(), size_bytes};
    }
    void free_chunk(backend::Chunk) override { --n_chunks; }
    Result<backend::Event> copy_in(std::byte*, std::span<const std::byte>) override {
        return fail(ErrorCode::kDeviceLost, "gone");
    }
    Result<backend::Event> copy_out(std::span<std::byte>, const std::byte*) override {
        return fail(ErrorCode::kDeviceLost, "gone");
    }
    Result<backend::Event> submit(std::span<const backend::OpRecord>,
                                  const backend::StepContext&) override {
        return fail(ErrorCode::kDeviceLost, "gone");
    }
    bool done(backend::Event) const override { return true; }
    Status wait(backend::Event) override { return {}; }
    Nanoseconds busy_time(backend::Event) const override { return Nanoseconds(0); }

    void order_after(backend::Queue, backend::Event) override {}

    int n_chunks = 0;

  private:
    std::vector<std::byte> memory_ = std::vector<std::byte>(64);
};

TEST(Probes, GiveADevicesMemoryBackWhenItFails) {
    Machine machine;
    const SteppingClock clock(milliseconds(1));
    BrokenDevice device;
    const Result<LinkRates> rates = measure_link(device, machine.memory, machine.pool, clock);
    ASSERT_FALSE(rates);
    EXPECT_EQ(rates.error().code, ErrorCode::kDeviceLost);
    EXPECT_EQ(device.n_chunks, 0);
}

}  // namespace
}  // namespace ballast::runtime
