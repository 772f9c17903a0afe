// SPDX-License-Identifier: MIT
// Copies whose rate changes on their way, and a CPU that is played slower than it is.
#include "engine/backend/paced_memory.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/op_work.h"
#include "engine/backend/paced_cpu.h"

namespace ballast::backend {
namespace {

using std::chrono::milliseconds;

/// Stands where the test puts it.
class PlayedClock final : public Clock {
  public:
    Nanoseconds now() const override {
        ++n_asked;
        return time;
    }
    std::int64_t unix_seconds() const override { return 0; }

    mutable std::atomic<int> n_asked{0};
    std::atomic<Nanoseconds> time{Nanoseconds(0)};
};

TEST(CopyProgress, EndsWhenItsBytesHaveCrossedAtEachRateInTurn) {
    CopyProgress copy(1000, Nanoseconds(50));
    EXPECT_EQ(copy.end(2.0), Nanoseconds(550));
    copy.settle(Nanoseconds(150), 2.0);  // 800 left
    EXPECT_EQ(copy.end(2.0), Nanoseconds(550));
    EXPECT_EQ(copy.end(0.0), std::nullopt);
    copy.settle(Nanoseconds(1150), 0.0);
    EXPECT_EQ(copy.end(8.0), Nanoseconds(1250));
    copy.settle(Nanoseconds(2000), 8.0);
    EXPECT_EQ(copy.end(0.0), Nanoseconds(2000));
}

TEST(CopyProgress, OfNothingHasEnded) {
    EXPECT_EQ(CopyProgress(0, Nanoseconds(7)).end(0.0), Nanoseconds(7));
}

TEST(PacedMemory, HoldsACopyBackWhileTheCpuTakesAll) {
    const SystemClock clock;
    PacedMemory memory(clock, 1.0);
    memory.set_cpu_reads(1.0);
    std::atomic<bool> crossed = false;
    const Nanoseconds begin = clock.now();
    std::thread copy([&] {
        memory.cross(1000, 1.0, begin);
        crossed = true;
    });
    // Nothing but the CPU's end lets it go on.
    watch_until(clock, begin + milliseconds(20));
    EXPECT_FALSE(crossed);
    const Nanoseconds free = clock.now();
    memory.set_cpu_reads(0.0);
    copy.join();
    EXPECT_GE(clock.now() - free, Nanoseconds(1000));
}

TEST(PacedMemory, TakesNoLessThanLinkAndMemoryAllow) {
    const SystemClock clock;
    PacedMemory memory(clock, 3.0);
    memory.set_cpu_reads(2.0);
    const Nanoseconds begin = clock.now();
    memory.cross(2'000'000, 5.0, begin);
    EXPECT_GE(clock.now() - begin, milliseconds(2));
    memory.set_cpu_reads(0.0);
    const Nanoseconds alone = clock.now();
    memory.cross(2'000'000, 2.0, alone);
    EXPECT_GE(clock.now() - alone, milliseconds(1));
}

TEST(PacedMemory, LetsGoWhatIsInterruptedAndWhatHasNoLink) {
    const SystemClock clock;
    PacedMemory memory(clock, 1.0);
    memory.cross(~0ULL, 0.0, clock.now());
    memory.set_cpu_reads(1.0);
    std::thread copy([&] { memory.cross(1000, 1.0, clock.now()); });
    memory.interrupt();
    copy.join();
    memory.cross(~0ULL, 1e-9, clock.now());
}

TEST(PacedMemory, LetsGoOfACopyThatHasLongToGo) {
    const SystemClock clock;
    PacedMemory memory(clock, 0.0);
    std::atomic<bool> crossed = false;
    std::thread copy([&] {
        memory.cross(60'000'000'000ULL, 1.0, clock.now());  // a minute
        crossed = true;
    });
    const Nanoseconds begin = clock.now();
    watch_until(clock, begin + milliseconds(20));
    EXPECT_FALSE(crossed);
    memory.interrupt();
    copy.join();
    EXPECT_LT(clock.now() - begin, std::chrono::seconds(30));
}

TEST(PacedMemory, CountsATimeOfTheCpuThatIsOverBeforeTheCopyingThreadIsAwake) {
    const SystemClock real;
    PlayedClock clock;
    PacedMemory memory(clock, 1.0);
    std::atomic<bool> crossed = false;
    std::thread copy([&] {
        memory.cross(30'000'000, 1.0, Nanoseconds(0));  // 30 ms alone
        crossed = true;
    });
    while (clock.n_asked == 0) {
        std::this_thread::yield();
    }
    // It has asked with the memory locked, so that what follows finds the copy on its way.
    clock.time = milliseconds(5);
    memory.set_cpu_reads(1.0);
    clock.time = milliseconds(15);
    memory.set_cpu_reads(0.0);
    clock.time = milliseconds(40) - Nanoseconds(1);
    watch_until(real, real.now() + milliseconds(60));
    EXPECT_FALSE(crossed);
    clock.time = milliseconds(40);
    copy.join();
}

TEST(PacedCpu, TakesNoLessThanTheModelledTimeAndComputesTheSame) {
    constexpr std::size_t kWidth = 64;
    const SystemClock clock;
    ThreadPool pool(1);
    CpuBackend cpu(*kernels::find_kernels(Isa::kScalar), pool);
    ASSERT_TRUE(cpu.reserve({.rows = 1, .outputs = 1, .blocks = 1, .k = kWidth}).has_value());
    const auto memory = std::make_shared<PacedMemory>(clock, 0.0);
    PacedCpu paced(cpu, clock, {.read_gbps = 0.01}, memory);
    EXPECT_EQ(paced.name(), cpu.name());
    EXPECT_EQ(paced.device(), DeviceId::kCpu);
    const std::vector<float> weight(kWidth * kWidth, 0.5F);
    std::vector<float> x(kWidth, 1.0F);
    std::vector<float> y(kWidth, 0.0F);
    const std::vector<SlotView> slots = {{x.data(), kWidth}, {y.data(), kWidth}};
    const std::vector<WeightView> weights = {
        {.data = reinterpret_cast<const std::byte*>(weight.data()),
         .n_rows = kWidth,
         .k = kWidth,
         .row_bytes = kWidth * sizeof(float)}};
    const std::vector<TokenId> tokens(1, 0);
    const StepContext context{
        .input = {.tokens = tokens, .n_decode_rows = 1}, .weights = weights, .slots = slots};
    const std::vector<OpRecord> ops = {{.op = Linear{.in = 0, .weights = {0}, .outs = {1}}},
                                       {.op = Linear{.in = 0, .weights = {0}, .outs = {1}}}};
    // Twice 16384 bytes at 0.01 bytes a nanosecond; twice 8192 operations at 0.005.
    const Nanoseconds reading = modelled_work(ops, context, 0.01, 0.0).time;
    EXPECT_EQ(reading, Nanoseconds(3'276'800));
    EXPECT_EQ(modelled_work(ops, context, 0.01, 0.004).time, Nanoseconds(4'096'000));
    EXPECT_EQ(modelled_work(ops, context, 0.0, 0.0).time, Nanoseconds(0));
    const Nanoseconds begin = clock.now();
    const auto event = paced.submit(ops, context);
    ASSERT_TRUE(event.has_value());
    EXPECT_GE(clock.now() - begin, reading);
    EXPECT_TRUE(paced.wait(*event).has_value());
    EXPECT_TRUE(paced.done(*event));
    EXPECT_EQ(y, std::vector<float>(kWidth, 0.5F * kWidth));
}

}  // namespace
}  // namespace ballast::backend
