// SPDX-License-Identifier: MIT
// The probes' arithmetic under clocks that a test owns: what is counted, not how fast it goes.
#include "engine/runtime/probes.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "engine/backend/cpu_backend.h"
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
    backend::CpuBackend cpu{kernels, pool};
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
        ProbeStep step(machine.cpu, machine.pool.size());
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
    ProbeStep step(machine.cpu, machine.pool.size());
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
    ProbeStep step(machine.cpu, machine.pool.size());
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
    ProbeStep step(machine.cpu, machine.pool.size());
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

TEST(Probes, MultiplySeveralMatricesInOneSubmission) {
    Machine machine;
    // Each submission ends 2 ms after its begin.
    const SteppingClock clock(milliseconds(2));
    ProbeStep step(machine.cpu, machine.pool.size(), 4);
    ASSERT_TRUE(step.reserve({.rows = 8, .k = 256}));
    step.pace[quant::QuantType::kQ8_0] = 1e12;
    const backend::WeightView matrix = made_up(machine.memory, quant::QuantType::kQ8_0, 96, 256);
    LinearProbe probe(step, {matrix, matrix, matrix}, 1, clock);
    const Result<Sample> sample = probe.sample();
    ASSERT_TRUE(sample) << sample.error().message;
    EXPECT_NEAR(sample->seconds, 0.020, 1e-9);
    EXPECT_EQ(sample->bytes, 10.0 * 4 * 96 * 256 / 32 * 34);
    EXPECT_EQ(sample->flops, 10.0 * 4 * 2 * 96 * 256);
}

TEST(Probes, GiveNoMatricesOfTwoWidthsToOneSubmission) {
    Machine machine;
    // So slow that a sample is one submission.
    const SteppingClock clock(milliseconds(21));
    ProbeStep step(machine.cpu, machine.pool.size(), 4);
    ASSERT_TRUE(step.reserve({.rows = 8, .k = 768}));
    step.pace[quant::QuantType::kQ8_0] = 1e12;
    const backend::WeightView narrow = made_up(machine.memory, quant::QuantType::kQ8_0, 96, 256);
    const backend::WeightView wide = made_up(machine.memory, quant::QuantType::kQ8_0, 96, 768);
    LinearProbe probe(step, {narrow, narrow, wide}, 1, clock);
    for (const double narrow_ones : {2.0, 3.0, 2.0}) {
        const Result<Sample> sample = probe.sample();
        ASSERT_TRUE(sample) << sample.error().message;
        EXPECT_EQ(sample->bytes, narrow_ones * 96 * 256 / 32 * 34);
    }
}

void take_all(Link& link) {
    while (true) {
        const Result<bool> more = link.grow();
        ASSERT_TRUE(more) << more.error().message;
        if (!*more) {
            return;
        }
    }
}

constexpr double kTileBytes = static_cast<double>(Link::kTileBytes);

TEST(Probes, CountsWhatALinkCopiesThroughTheInterfaceAlone) {
    Machine machine;
    const SteppingClock clock(milliseconds(1));
    // The CPU stands in for a device: its copies end when they are made.
    Link link(machine.cpu, 1);
    take_all(link);
    EXPECT_EQ(link.n_tiles(), 4U);
    for (const bool back : {false, true}) {
        PinnedCopyProbe probe(link, back, clock);
        // A sample is two looks at the clock, 1 ms. It starts at 4 tiles, and then the pace asks
        // for 80 tiles in that millisecond, and at last for the most.
        for (const double tiles : {4.0, 80.0, 128.0, 128.0}) {
            const Result<Sample> sample = probe.sample();
            ASSERT_TRUE(sample) << sample.error().message;
            EXPECT_EQ(sample->bytes, tiles * kTileBytes);
            EXPECT_DOUBLE_EQ(sample->seconds, 0.001);
        }
    }
    StagedCopyProbe staged(link, machine.memory, clock);
    for (const double tiles : {4.0, 80.0, 128.0}) {
        const Result<Sample> sample = staged.sample();
        ASSERT_TRUE(sample) << sample.error().message;
        EXPECT_EQ(sample->bytes, tiles * kTileBytes);
    }
    // The copies' pace is that of those alone; the reads begin at their own.
    ThreadPool others(2);
    TogetherProbe together(link, machine.memory, others, clock);
    const Result<Sample> sum = together.sample();
    ASSERT_TRUE(sum) << sum.error().message;
    EXPECT_EQ(sum->bytes, 128 * kTileBytes + 19.0 * kMiB);
    EXPECT_DOUBLE_EQ(sum->seconds, 0.003);
    HopProbe hop(link, clock);
    const Result<Sample> half = hop.sample();
    ASSERT_TRUE(half) << half.error().message;
    EXPECT_EQ(half->bytes, 0.0);
    EXPECT_DOUBLE_EQ(half->seconds, 0.0005);
}

/// Looks at what arrives on the device, which is memory of this process here.
class WatchedDevice final : public backend::Backend {
  public:
    explicit WatchedDevice(backend::Backend& inner) : inner_(inner) {}
    DeviceId device() const override { return DeviceId::kDevice; }
    std::string name() const override { return "watched"; }
    bool supports(const backend::Op& op, quant::QuantType type) const override {
        return inner_.supports(op, type);
    }
    Status reserve(const backend::StepLimits& limits) override { return inner_.reserve(limits); }
    Result<backend::Chunk> allocate_chunk(std::size_t size_bytes) override {
        return inner_.allocate_chunk(size_bytes);
    }
    void free_chunk(backend::Chunk chunk) override { inner_.free_chunk(chunk); }
    backend::MemoryUse memory_use() const override { return inner_.memory_use(); }
    Result<backend::Chunk> allocate_host(std::size_t size_bytes) override {
        BALLAST_TRY(const backend::Chunk chunk, inner_.allocate_host(size_bytes));
        host.push_back(chunk);
        return chunk;
    }
    void free_host(backend::Chunk chunk) override {
        std::erase_if(host, [&](const backend::Chunk& one) { return one.data == chunk.data; });
        inner_.free_host(chunk);
    }
    Result<backend::Event> copy_in(std::byte* device, std::span<const std::byte> bytes) override {
        if (full_at != 0 && ++n_copies == full_at) {
            return fail(ErrorCode::kOverloaded, "full");
        }
        n_pinned += std::any_of(host.begin(), host.end(), [&](const backend::Chunk& chunk) {
            return bytes.data() >= chunk.data && bytes.data() < chunk.data + chunk.size_bytes;
        });
        BALLAST_TRY(const backend::Event event, inner_.copy_in(device, bytes));
        first_words.push_back(0);
        std::memcpy(&first_words.back(), device, sizeof(std::uint64_t));
        return event;
    }
    Result<backend::Event> copy_out(std::span<std::byte> bytes, const std::byte* device) override {
        return inner_.copy_out(bytes, device);
    }
    Result<backend::Event> copy_strips_in(backend::Queue queue,
                                          std::byte* device,
                                          const std::byte* from,
                                          const backend::Strips& strips) override {
        return inner_.copy_strips_in(queue, device, from, strips);
    }
    Result<backend::Event> copy_strips_out(backend::Queue queue,
                                           std::byte* to,
                                           const std::byte* device,
                                           const backend::Strips& strips) override {
        return inner_.copy_strips_out(queue, to, device, strips);
    }
    Result<backend::Event> submit(std::span<const backend::OpRecord> ops,
                                  const backend::StepContext& context) override {
        return inner_.submit(ops, context);
    }
    void order_after(backend::Queue, backend::Event) override {}
    bool done(backend::Event) const override { return true; }
    Status wait(backend::Event) override {
        ++n_waits;
        return {};
    }
    backend::WorkTime work_time(backend::Event) const override { return {}; }

    std::vector<backend::Chunk> host;
    std::vector<std::uint64_t> first_words;
    int n_pinned = 0;
    int n_waits = 0;
    int n_copies = 0;
    int full_at = 0;  // this copy is refused; 0: none

  private:
    backend::Backend& inner_;
};

TEST(Probes, StagesOrdinaryPagesThroughTwoPinnedTiles) {
    Machine machine;
    const SteppingClock clock(milliseconds(1));
    WatchedDevice device(machine.cpu);
    {
        Link link(device, 1);
        take_all(link);
        StagedCopyProbe probe(link, machine.memory, clock);
        ASSERT_TRUE(probe.sample());
        // What arrives is what lies in the ordinary pages, tile by tile, out of pinned memory only.
        std::vector<std::uint64_t> expected;
        for (std::size_t i = 0; i < 4; ++i) {
            expected.push_back(machine.memory.segment(0)[i * Link::kTileBytes / 8]);
        }
        EXPECT_EQ(device.first_words, expected);
        EXPECT_EQ(device.n_pinned, 4);
        // A tile is written again only when its copy has ended: twice, and once at the end.
        EXPECT_EQ(device.n_waits, 3);
    }
    EXPECT_TRUE(device.host.empty());
}

TEST(Probes, WaitWhereTheQueueOfADeviceIsFull) {
    Machine machine;
    const SteppingClock clock(milliseconds(1));
    WatchedDevice device(machine.cpu);
    Link link(device, 1);
    take_all(link);
    device.full_at = 3;
    PinnedCopyProbe probe(link, false, clock);
    const Result<Sample> sample = probe.sample();
    ASSERT_TRUE(sample) << sample.error().message;
    EXPECT_EQ(sample->bytes, 4 * kTileBytes);
    EXPECT_EQ(device.first_words.size(), 4U);
    EXPECT_EQ(device.n_waits, 2);
}

TEST(Probes, NeverFindADeviceFasterThanItIs) {
    Machine machine;
    const SystemClock clock;
    const Nanoseconds latency = std::chrono::microseconds(200);
    backend::HostBackend device(
        machine.kernels, clock, {.pace = {.link_gbps = 2.0, .latency = latency}});
    {
        Link link(device, 1);
        take_all(link);
        PinnedCopyProbe in(link, false, clock);
        PinnedCopyProbe out(link, true, clock);
        StagedCopyProbe staged(link, machine.memory, clock);
        // It is paced: a copy takes its modelled time or longer.
        for (Probe* probe :
             {static_cast<Probe*>(&in), static_cast<Probe*>(&out), static_cast<Probe*>(&staged)}) {
            const Result<Sample> sample = probe->sample();
            ASSERT_TRUE(sample) << sample.error().message;
            EXPECT_GT(sample->gbps(), 0.0);
            EXPECT_LE(sample->gbps(), 2.0);
        }
        // There and back are two copies and an op, put at once: one latency for all.
        HopProbe hop(link, clock);
        const Result<Sample> half = hop.sample();
        ASSERT_TRUE(half) << half.error().message;
        EXPECT_GE(half->seconds, 0.5 * 200e-6);
        EXPECT_EQ(device.used_bytes(), Link::kTiles * Link::kTileBytes);
    }
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
    backend::MemoryUse memory_use() const override { return {}; }
    Result<backend::Chunk> allocate_host(std::size_t size_bytes) override {
        if (n_host_left-- == 0) {
            return fail(ErrorCode::kOutOfMemory, "nothing can be pinned");
        }
        ++n_host;
        return backend::Chunk{memory_.data(), size_bytes};
    }
    void free_host(backend::Chunk) override { --n_host; }
    Result<backend::Event> copy_in(std::byte*, std::span<const std::byte>) override {
        return fail(ErrorCode::kDeviceLost, "gone");
    }
    Result<backend::Event> copy_out(std::span<std::byte>, const std::byte*) override {
        return fail(ErrorCode::kDeviceLost, "gone");
    }
    Result<backend::Event> copy_strips_in(backend::Queue,
                                          std::byte*,
                                          const std::byte*,
                                          const backend::Strips&) override {
        return fail(ErrorCode::kDeviceLost, "gone");
    }
    Result<backend::Event> copy_strips_out(backend::Queue,
                                           std::byte*,
                                           const std::byte*,
                                           const backend::Strips&) override {
        return fail(ErrorCode::kDeviceLost, "gone");
    }
    Result<backend::Event> submit(std::span<const backend::OpRecord>,
                                  const backend::StepContext&) override {
        return fail(ErrorCode::kDeviceLost, "gone");
    }
    bool done(backend::Event) const override { return true; }
    Status wait(backend::Event) override { return {}; }
    backend::WorkTime work_time(backend::Event) const override { return {}; }

    void order_after(backend::Queue, backend::Event) override {}

    int n_chunks = 0;
    int n_host = 0;
    int n_host_left = 100;

  private:
    std::vector<std::byte> memory_ = std::vector<std::byte>(Link::kPieceBytes);
};

TEST(Probes, GiveADevicesMemoryBackWhenItFails) {
    Machine machine;
    const SteppingClock clock(milliseconds(1));
    BrokenDevice device;
    {
        Link link(device, 2 * Link::kPieceBytes);
        take_all(link);
        EXPECT_EQ(device.n_chunks, 1);
        EXPECT_EQ(device.n_host, 2);
        PinnedCopyProbe in(link, false, clock);
        PinnedCopyProbe out(link, true, clock);
        StagedCopyProbe staged(link, machine.memory, clock);
        TogetherProbe together(link, machine.memory, machine.pool, clock);
        HopProbe hop(link, clock);
        for (Probe* probe : {static_cast<Probe*>(&in),
                             static_cast<Probe*>(&out),
                             static_cast<Probe*>(&staged),
                             static_cast<Probe*>(&together),
                             static_cast<Probe*>(&hop)}) {
            const Result<Sample> sample = probe->sample();
            ASSERT_FALSE(sample);
            EXPECT_EQ(sample.error().code, ErrorCode::kDeviceLost);
        }
    }
    EXPECT_EQ(device.n_chunks, 0);
    EXPECT_EQ(device.n_host, 0);
    device.n_host_left = 1;
    {
        Link link(device, 2 * Link::kPieceBytes);
        EXPECT_TRUE(link.grow());
        EXPECT_TRUE(link.grow());
        const Result<bool> refused = link.grow();
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
    }
    EXPECT_EQ(device.n_chunks, 0);
    EXPECT_EQ(device.n_host, 0);
}

}  // namespace
}  // namespace ballast::runtime
