// SPDX-License-Identifier: MIT
// The reference step against figures worked out by hand, in milliseconds.
#include "tests/scheduler/reference/step_time.h"

#include <gtest/gtest.h>

namespace ballast::test {
namespace {

using scheduler::GroupKind;
using scheduler::GroupPlacement;
using scheduler::HardwareProfile;
using scheduler::TensorGroup;

constexpr std::uint64_t kMb = 1'000'000;
constexpr std::uint64_t kMib = 1U << 20U;

/// 1 MB takes the device 0.01 ms, the CPU 0.1 ms and the link 0.2 ms; a hop takes 0.1 ms. While
/// the CPU reads, the link gets 2 of its 5 GB/s.
HardwareProfile machine() {
    return {.device_read_gbps = 100,
            .cpu_read_gbps = 10,
            .link_gbps = 5,
            .dram_gbps = 12,
            .hop_us = 100,
            .device_tflops = 10,
            .cpu_tflops = 1,
            .expert_prefill_factor = 0.5};
}

/// The device reads 100, the CPU 50, both together 75: half the pace.
HardwareProfile unified_machine() {
    HardwareProfile h = machine();
    h.unified_memory = true;
    h.cpu_read_gbps = 50;
    h.link_gbps = 0;
    h.dram_gbps = 75;
    return h;
}

TensorGroup feed_forward(std::uint64_t bytes) {
    return {.kind = GroupKind::kFeedForward, .parts = 10, .weight_bytes = bytes};
}

TensorGroup attention(std::uint64_t bytes, std::uint64_t kv_bytes_per_token) {
    return {.kind = GroupKind::kAttention,
            .parts = 10,
            .weight_bytes = bytes,
            .kv_bytes_per_token = kv_bytes_per_token};
}

/// 4 experts of 20 MB, of which 2 are used, and 10 MB that are always read.
TensorGroup experts() {
    return {.kind = GroupKind::kExperts,
            .parts = 4,
            .weight_bytes = 10 * kMb,
            .experts_used = 2,
            .expert_bytes = 20 * kMb};
}

constexpr GroupPlacement kCpu = {};
constexpr GroupPlacement kDevice = {.resident = 10};

struct Placed {
    TensorGroup group;
    GroupPlacement placement;
};

double ms(const HardwareProfile& h, const std::vector<Placed>& chain, ReferenceStep step = {}) {
    scheduler::TensorCatalog catalog;
    catalog.width = 1000;
    scheduler::Placement placement;
    for (const Placed& placed : chain) {
        catalog.groups.push_back(placed.group);
        placement.groups.push_back(placed.placement);
    }
    return 1000.0 * reference_step_seconds(catalog, h, placement, step);
}

constexpr double kTiny = 1e-9;

TEST(ReferenceStep, AddsUpWhatTheCpuReads) {
    // 10 MB + 20 MB at 10 GB/s.
    EXPECT_NEAR(ms(machine(), {{feed_forward(10 * kMb), kCpu}, {feed_forward(20 * kMb), kCpu}}),
                3.0,
                kTiny);
    // 10 MB and 4000 tokens of 1000 bytes: 14 MB.
    EXPECT_NEAR(ms(machine(), {{attention(10 * kMb, 1000), kCpu}}, {.depth = 4000}), 1.4, kTiny);
}

TEST(ReferenceStep, TakesAHopToTheDeviceAndOneBack) {
    // 0.1 there, 0.1 + 0.2 of reading at 100 GB/s, 0.1 back.
    EXPECT_NEAR(
        ms(machine(), {{feed_forward(10 * kMb), kDevice}, {feed_forward(20 * kMb), kDevice}}),
        0.5,
        kTiny);
}

TEST(ReferenceStep, LetsBothSidesComputeTheirShares) {
    // 6 MB: the device from 0.1 to 0.16; 4 MB: the CPU from 0 to 0.4; the device's result is here
    // at 0.26.
    EXPECT_NEAR(ms(machine(), {{feed_forward(10 * kMb), {.resident = 6}}}), 0.4, kTiny);
    // 9 MB: the device from 0.1 to 0.19, here at 0.29; the CPU ended at 0.1.
    EXPECT_NEAR(ms(machine(), {{feed_forward(10 * kMb), {.resident = 9}}}), 0.29, kTiny);
}

TEST(ReferenceStep, PaysForEachChangeOfSides) {
    // CPU to 1.0; device from 1.1 to 1.2; CPU from 1.3 to 2.3.
    EXPECT_NEAR(ms(machine(),
                   {{feed_forward(10 * kMb), kCpu},
                    {feed_forward(10 * kMb), kDevice},
                    {feed_forward(10 * kMb), kCpu}}),
                2.3,
                kTiny);
}

TEST(ReferenceStep, RunsTheOwnersShareWhileTheHopIsUnderWay) {
    // The device has the residual at 0.2, the CPU at 0.3. The device reads 90 MB to 1.1, the CPU
    // 10 MB to 1.3; at the CPU both are there at 1.3, on the device at 1.4.
    const std::vector<Placed> chain = {{feed_forward(10 * kMb), kDevice},
                                       {feed_forward(100 * kMb), {.resident = 9}}};
    EXPECT_NEAR(ms(machine(), chain), 1.3, kTiny);
    std::vector<Placed> longer = chain;
    longer.push_back({feed_forward(10 * kMb), kDevice});
    // On the device to 1.5, and back.
    EXPECT_NEAR(ms(machine(), longer), 1.6, kTiny);
}

TEST(ReferenceStep, WaitsForBlockingHops) {
    // The device has the residual at 0.2 and owns it. Both begin at 0.3; the device ends at 1.2,
    // the CPU at 1.3; joined on the device at 1.4, on the CPU at 1.5.
    EXPECT_NEAR(ms(machine(),
                   {{feed_forward(10 * kMb), kDevice}, {feed_forward(100 * kMb), {.resident = 9}}},
                   {.blocking_hops = true}),
                1.5,
                kTiny);
    // The CPU owns it at 0. Both begin at 0.1; 1.0 and 1.1; joined on the CPU at 1.2. With hops
    // overlapped it would be max(1.0, 1.0 + 0.1).
    const std::vector<Placed> first = {{feed_forward(100 * kMb), {.resident = 9}}};
    EXPECT_NEAR(ms(machine(), first, {.blocking_hops = true}), 1.2, kTiny);
    EXPECT_NEAR(ms(machine(), first), 1.1, kTiny);
    // On the device it is usable at 1.3; 10 MB there to 1.4; back at 1.5.
    EXPECT_NEAR(
        ms(machine(), {first[0], {feed_forward(10 * kMb), kDevice}}, {.blocking_hops = true}),
        1.5,
        kTiny);
}

TEST(ReferenceStep, IsAsSlowAsTheLinkWhereAllStreams) {
    // 20 MB a step at 5 GB/s; the lane never stops, since it runs ahead into the next step.
    EXPECT_NEAR(ms(machine(), {{feed_forward(20 * kMb), {.streamed = 10}}}), 4.0, kTiny);
}

TEST(ReferenceStep, LetsTheLaneRunNoFurtherAheadThanTheRingIsLong) {
    HardwareProfile h = machine();
    h.dram_gbps = 15;                                       // enough for both
    const TensorGroup cpu_work = feed_forward(1000 * kMb);  // 100 ms
    // A tile of 32 MiB crosses in x = 6.7108864 and is read in d = 0.33554432. Four are there when
    // the step begins: hop, 4 d, hop, 100.
    EXPECT_NEAR(ms(h, {{feed_forward(128 * kMib), {.streamed = 10}}, {cpu_work, kCpu}}),
                0.2 + 4 * 0.33554432 + 100.0,
                kTiny);
    // The fifth may start when the first has been read, and is read when it has crossed.
    EXPECT_NEAR(ms(h, {{feed_forward(160 * kMib), {.streamed = 10}}, {cpu_work, kCpu}}),
                0.2 + 0.33554432 + 6.7108864 + 0.33554432 + 100.0,
                kTiny);
}

TEST(ReferenceStep, CutsIntoTheLeastNumberOfEqualTiles) {
    EXPECT_EQ(tiles_of(0), 0);
    EXPECT_EQ(tiles_of(1), 1);
    EXPECT_EQ(tiles_of(32.0 * kMib), 1);
    EXPECT_EQ(tiles_of(32.0 * kMib + 1), 2);
    EXPECT_EQ(tiles_of(100.0 * kMib), 4);
    EXPECT_EQ(tiles_of(96.0 * kMib * (1.0 + 1e-15)), 3);
}

TEST(ReferenceStep, LeavesTheLinkWhatTheCpuDoesNotRead) {
    // Of 20 MB the CPU reads 10 in 1 ms, in which 2 MB cross; the other 8 MB take 1.6 ms.
    EXPECT_NEAR(ms(machine(), {{feed_forward(20 * kMb), {.streamed = 5}}}), 2.6, kTiny);
    // With all of the memory's bandwidth taken nothing crosses meanwhile: 1 ms and 2 ms.
    HardwareProfile h = machine();
    h.dram_gbps = 10;
    EXPECT_NEAR(ms(h, {{feed_forward(20 * kMb), {.streamed = 5}}}), 3.0, kTiny);
}

TEST(ReferenceStep, SlowsBothSidesOnUnifiedMemory) {
    // 150 MB: the device 120 in 1.2, the CPU 30 in 0.6. The CPU alone to 0.1, 0.5 left; at half
    // the pace to 1.1, by when the device has done 0.5; alone to 1.8; here at 1.9.
    const std::vector<Placed> chain = {{feed_forward(150 * kMb), {.resident = 8}}};
    EXPECT_NEAR(ms(unified_machine(), chain), 1.9, kTiny);
    // Both begin at 0.1: the CPU to 1.3, the device, 0.6 left, to 1.9; joined at 2.0.
    EXPECT_NEAR(ms(unified_machine(), chain, {.blocking_hops = true}), 2.0, kTiny);
    // Alone nothing slows: 0.1 + 1.5 + 0.1.
    EXPECT_NEAR(ms(unified_machine(), {{feed_forward(150 * kMb), kDevice}}), 1.7, kTiny);
    // After another group the device begins at 0.6 and is done at 0.69, before the CPU begins at
    // 0.7: 91 MB in 1.82, at full pace.
    EXPECT_NEAR(ms(unified_machine(),
                   {{feed_forward(50 * kMb), kDevice},
                    {{.parts = 100, .weight_bytes = 100 * kMb}, {.resident = 9}}}),
                0.7 + 1.82,
                kTiny);
}

TEST(ReferenceStep, ExpectsTheMissesOfExperts) {
    // Half of the experts resident: 0, 1 or 2 misses with 0.25, 0.5, 0.25.
    // 0: the device 10 + 40 MB from 0.1 to 0.6, on the CPU at 0.7.
    // 1: the device 30 MB to 0.4, the CPU 20 MB to 2.0; usable at 2.1 and 2.0.
    // 2: the device 10 MB to 0.2, the CPU 40 MB to 4.0; 4.1 and 4.0.
    // CPU: 0.175 + 1.0 + 1.0; device: 0.15 + 1.05 + 1.025 = 2.225.
    const Placed half = {experts(), {.resident = 2, .shared_on_device = true}};
    const Placed head = {feed_forward(10 * kMb), kDevice};
    EXPECT_NEAR(ms(machine(), {half}), 2.175, kTiny);
    EXPECT_NEAR(ms(machine(), {half, head}), 2.225 + 0.1 + 0.1, kTiny);
    // Blocking, the CPU owns: 0.6/0.7 as before; 1: both begin at 0.1, the CPU to 2.1, joined
    // at 2.2 (device 2.3); 2: 4.1, 4.2 (4.3). CPU: 0.175 + 1.1 + 1.05; device: 0.15 + 1.15 + 1.075
    // = 2.375.
    EXPECT_NEAR(ms(machine(), {half}, {.blocking_hops = true}), 2.325, kTiny);
    EXPECT_NEAR(ms(machine(), {half, head}, {.blocking_hops = true}), 2.575, kTiny);
}

TEST(ReferenceStep, KnowsTheExpertsPlacesWithoutChance) {
    // All on the CPU: 50 MB.
    EXPECT_NEAR(ms(machine(), {{experts(), kCpu}}), 5.0, kTiny);
    // All resident: 0.1 + 0.5 + 0.1.
    EXPECT_NEAR(
        ms(machine(), {{experts(), {.resident = 4, .shared_on_device = true}}}), 0.7, kTiny);
    // Only what is always read: the CPU's 40 MB.
    EXPECT_NEAR(ms(machine(), {{experts(), {.shared_on_device = true}}}), 4.0, kTiny);
}

TEST(ReferenceStep, HitsMoreOftenWithLocality) {
    // One of 4 used, two resident. A hit: 0.1 + 0.3 + 0.1 = 0.5; a miss: the CPU's 2.0.
    TensorGroup one = experts();
    one.experts_used = 1;
    const Placed half = {one, {.resident = 2, .shared_on_device = true}};
    EXPECT_NEAR(ms(machine(), {half}), 0.5 * 0.5 + 0.5 * 2.0, kTiny);
    // 1 - 0.5^1.8 = 0.7128254.
    EXPECT_NEAR(ms(machine(), {half}, {.locality = Locality::kWeak}),
                0.7128254 * 0.5 + 0.2871746 * 2.0,
                1e-6);
    // 0.5^0.17 = 0.8888427.
    EXPECT_NEAR(ms(machine(), {half}, {.locality = Locality::kStrong}),
                0.8888427 * 0.5 + 0.1111573 * 2.0,
                1e-6);
}

TEST(ReferenceStep, SlowsTheLinkByTheExpectedWorkOnExperts) {
    // 20 MB cross a step; the CPU is expected to read 0.5 · 20 + 0.25 · 40 MB in 2 ms, in which 4
    // MB cross. The rest, 16 MB, takes 3.2 ms.
    EXPECT_NEAR(ms(machine(),
                   {{feed_forward(20 * kMb), {.streamed = 10}},
                    {experts(), {.resident = 2, .shared_on_device = true}}}),
                5.2,
                kTiny);
}

TEST(ReferenceStep, SeesNoMoreThanTheWindow) {
    TensorGroup sliding = attention(10 * kMb, 1000);
    sliding.window = 1000;
    // 1000 positions of 1000 bytes: 11 MB.
    EXPECT_NEAR(ms(machine(), {{sliding, kCpu}}, {.depth = 4000}), 1.1, kTiny);
    EXPECT_NEAR(ms(machine(), {{sliding, kCpu}}, {.depth = 500}), 1.05, kTiny);
    // A state is read whole: 12 MB.
    TensorGroup state = attention(10 * kMb, 0);
    state.state_bytes = 2 * kMb;
    EXPECT_NEAR(ms(machine(), {{state, kCpu}}, {.depth = 4000}), 1.2, kTiny);
}

TEST(ReferenceStep, CountsTheArithmeticOfPrefill) {
    TensorGroup ffn = feed_forward(10 * kMb);
    ffn.weights = 1'000'000'000;
    // 100 tokens: 2e11 operations, on the device in 20 ms. The residual, 200 kB, takes 0.04 ms more
    // a hop.
    EXPECT_NEAR(ms(machine(), {{ffn, kDevice}}, {.tokens = 100}), 20.0 + 2 * 0.14, kTiny);
    EXPECT_NEAR(ms(machine(), {{ffn, kCpu}}, {.tokens = 100}), 200.0, kTiny);
    // Of the head only one row: 2e9 operations.
    TensorGroup head = ffn;
    head.kind = GroupKind::kHead;
    EXPECT_NEAR(ms(machine(), {{head, kDevice}}, {.tokens = 100}), 0.2 + 2 * 0.14, kTiny);
    // Attention: 2e6 · 101 + 4e5 · 101 · 200 positions = 8.282e9 operations.
    TensorGroup heads = attention(kMb, 0);
    heads.weights = 1'000'000;
    heads.attention_width = 100'000;
    EXPECT_NEAR(ms(machine(), {{heads, kCpu}}, {.tokens = 101, .depth = 150}), 8.282, kTiny);
}

TEST(ReferenceStep, ReadsTheCacheBeforeTheTiles) {
    // 10 MB stream, 9999 + 1 positions of 1000 bytes do not. Hop 0.1008; the cache to 0.2008; the
    // tile is there at 2.0 and read at 2.1.
    EXPECT_NEAR(ms(machine(),
                   {{attention(10 * kMb, 1000), {.prefill_streamed = 10}}},
                   {.tokens = 2, .depth = 9999}),
                2.1 + 0.1008,
                kTiny);
}

TEST(ReferenceStep, CopiesBeforeABlockingHopHasEnded) {
    // Both begin at 0.1008. By then 0.504 MB have crossed, until the CPU ends at 1.1008 another
    // 2 MB; the other 7.496 take 1.4992, to 2.6. The device ends at 2.7.
    EXPECT_NEAR(ms(machine(),
                   {{feed_forward(20 * kMb), {.prefill_streamed = 5}}},
                   {.tokens = 2, .blocking_hops = true}),
                2.7 + 0.1008,
                kTiny);
}

TEST(ReferenceStep, LeavesTheLinkToItselfUntilABlockedCpuBegins) {
    // Of 2 MB 0.504 have crossed at 0.1008, when the CPU begins its 0.8 ms; the rest at 2 GB/s by
    // 0.8488. The device reads as slowly as the CPU: the tile is done at 1.0488.
    HardwareProfile h = machine();
    h.device_read_gbps = 10;
    EXPECT_NEAR(ms(h,
                   {{feed_forward(10 * kMb), {.prefill_streamed = 2}}},
                   {.tokens = 2, .blocking_hops = true}),
                1.0488 + 0.1008,
                kTiny);
}

TEST(ReferenceStep, SendsNoResidualOnUnifiedMemory) {
    EXPECT_NEAR(ms(unified_machine(), {{feed_forward(10 * kMb), kDevice}}, {.tokens = 100}),
                0.1 + 0.1 + 0.1,
                kTiny);
}

TEST(ReferenceStep, ReadsInPlaceWhatIsTheDevicesInPrefillOnly) {
    // As if 8 of 10 parts were resident; decode leaves them to the CPU: 150 MB at 50 GB/s.
    const std::vector<Placed> prefill = {{feed_forward(150 * kMb), {.prefill_streamed = 8}}};
    EXPECT_NEAR(ms(unified_machine(), prefill, {.tokens = 2}), 1.9, kTiny);
    EXPECT_NEAR(ms(unified_machine(), prefill), 3.0, kTiny);
    // All the experts of a prompt of 2, 60 MB, and the 10 MB that are always read.
    EXPECT_NEAR(ms(unified_machine(), {{experts(), {.prefill_streamed = 4}}}, {.tokens = 2}),
                0.1 + 0.7 + 0.1,
                kTiny);
}

TEST(ReferenceStep, NeedsNoDevice) {
    HardwareProfile h;
    h.has_device = false;
    h.cpu_read_gbps = 10;
    h.dram_gbps = 12;
    h.cpu_tflops = 1;
    EXPECT_NEAR(ms(h, {{feed_forward(10 * kMb), kCpu}, {experts(), kCpu}}), 6.0, kTiny);
    EXPECT_NEAR(ms(h, {{feed_forward(10 * kMb), kCpu}}, {.tokens = 2}), 1.0, kTiny);
}

TEST(ReferenceStep, BeginsPrefillWithAnEmptyRing) {
    // 128 MiB: four tiles cross one after the other, in decode four would be there.
    EXPECT_NEAR(ms(machine(),
                   {{feed_forward(128 * kMib), {.streamed = 0, .prefill_streamed = 10}}},
                   {.tokens = 2}),
                4 * 6.7108864 + 0.33554432 + 0.1008,
                kTiny);
}

TEST(ReferenceStep, SpreadsAPromptOverTheExperts) {
    // 2 tokens meet 4 · (1 - 0.5²) = 3 experts' worth, 60 MB. The device has 1/4 resident and 1/2
    // streamed: with the 10 MB it is 0.55 ms, of them 0.3 as the tile arrives. The CPU reads 15 MB
    // in 1.5 ms, in which 3 MB cross; the other 27 MB take 5.4 ms. Hop: 0.1008.
    const GroupPlacement placed = {.resident = 1, .prefill_streamed = 2, .shared_on_device = true};
    EXPECT_NEAR(ms(machine(), {{experts(), placed}}, {.tokens = 2}), 6.9 + 0.3 + 0.1008, kTiny);

    // 1e9 weights an expert: 4 pairs are 8e9 operations. The CPU's quarter takes 2 ms and reads
    // 7.5 GB/s: 4.5 are left to the link, 9 MB; the other 21 MB take 4.2 ms. The streamed half
    // is 8e9 operations at half the pace: 0.8 ms.
    TensorGroup heavy = experts();
    heavy.weights = 100'000'000;
    heavy.expert_weights = 1'000'000'000;
    EXPECT_NEAR(ms(machine(), {{heavy, placed}}, {.tokens = 2}), 6.2 + 0.8 + 0.1008, kTiny);
    // All resident: 4e8 and, at half the pace, 16e9 operations.
    EXPECT_NEAR(ms(machine(), {{heavy, {.resident = 4, .shared_on_device = true}}}, {.tokens = 2}),
                0.04 + 1.6 + 2 * 0.1008,
                kTiny);
    // All on the CPU: 8.4e9 operations.
    EXPECT_NEAR(ms(machine(), {{heavy, kCpu}}, {.tokens = 2}), 8.4, kTiny);
}

TEST(ReferenceStep, SendsTheAlwaysReadPartWithStreamedExperts) {
    // 30 + 10 MB in two tiles. The CPU reads 30 MB in 3 ms, in which 6 MB cross; the first tile is
    // there at 5.8, the second at 9.8; half of 0.3 ms after it.
    EXPECT_NEAR(ms(machine(), {{experts(), {.prefill_streamed = 2}}}, {.tokens = 2}),
                9.8 + 0.15 + 0.1008,
                kTiny);
}

TEST(ReferenceMemory, AddsResidentWeightsTheCacheAndTheRing) {
    scheduler::TensorCatalog catalog;
    catalog.groups = {attention(100 * kMb, 1000), feed_forward(1000 * kMb), experts()};
    catalog.groups[0].state_bytes = kMb;
    const scheduler::KvReserve reserve = {.tokens = 10'000};
    EXPECT_EQ(reference_device_bytes(catalog, {{kCpu, kCpu, kCpu}}, reserve), 0.0);
    // 20 MB of weights, half of 10 MB and of 1 MB, no ring but for 30 MB.
    EXPECT_NEAR(
        reference_device_bytes(catalog, {{{.resident = 2, .streamed = 3}, kCpu, kCpu}}, reserve),
        (20.0 + 5.0 + 0.5 + 4 * 30.0) * kMb,
        1.0);
    // The same ring where that streams in prefill only, but the cache of two heads of ten.
    EXPECT_NEAR(reference_device_bytes(
                    catalog, {{{.resident = 2, .prefill_streamed = 3}, kCpu, kCpu}}, reserve),
                (20.0 + 2.0 + 0.2 + 4 * 30.0) * kMb,
                1.0);
    // 10 MB and two experts resident, one that may stream: 20 MB.
    const GroupPlacement some = {.resident = 2, .prefill_streamed = 1, .shared_on_device = true};
    EXPECT_NEAR(reference_device_bytes(catalog, {{kCpu, kCpu, some}}, reserve),
                (50.0 + 4 * 20.0) * kMb,
                1.0);
    // Without the always-read part on the device it streams too; with 500 MB elsewhere a tile is
    // of full size.
    EXPECT_NEAR(reference_device_bytes(catalog, {{kCpu, kCpu, {.prefill_streamed = 1}}}, reserve),
                4 * 30.0 * kMb,
                1.0);
    EXPECT_NEAR(reference_device_bytes(catalog, {{kCpu, {.streamed = 5}, some}}, reserve),
                50.0 * kMb + 128.0 * kMib,
                1.0);
}

TEST(ReferenceMemory, MapsOnOneMemoryWhatTheDeviceReadsInPrefill) {
    scheduler::TensorCatalog catalog;
    catalog.groups = {attention(100 * kMb, 1000), experts()};
    const scheduler::KvReserve reserve = {.tokens = 10'000, .unified_memory = true};
    // 50 MB of weights and half of 10 MB; 10 MB and three experts.
    EXPECT_NEAR(
        reference_device_bytes(
            catalog, {{{.resident = 2, .prefill_streamed = 3}, {.prefill_streamed = 3}}}, reserve),
        (50.0 + 5.0 + 10.0 + 60.0) * kMb,
        1.0);
}

}  // namespace
}  // namespace ballast::test
