// SPDX-License-Identifier: MIT
// The device made of threads: the same bits as the CPU, order between its queues, pace, planned
// faults, and an end with work still queued.
#include "engine/backend/host_backend.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <mutex>
#include <optional>

#include <gtest/gtest.h>

#include "engine/backend/op_work.h"
#include "tests/engine/backend/layer_step.h"

namespace ballast::backend {
namespace {

std::vector<float> on_the_cpu() {
    ThreadPool pool(1);
    CpuBackend cpu(scalar(), pool);
    Step step(cpu);
    const auto ops = layer_ops();
    const auto event = cpu.submit(ops, step.context());
    EXPECT_TRUE(event.has_value());
    return step.read(*event);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(HostBackend, ComputesTheBitsOfTheCpu) {
    const SystemClock clock;
    const std::vector<float> expected = on_the_cpu();
    for (const int threads : {1, 2}) {
        HostBackend host(scalar(), clock, {.threads = threads});
        Step step(host);
        const auto ops = layer_ops();
        const auto event = host.submit(ops, step.context());
        ASSERT_TRUE(event.has_value());
        EXPECT_TRUE(same_bits(step.read(*event), expected)) << threads << " threads";
        EXPECT_TRUE(host.work_time(*event).is_known());
    }
}

TEST(HostBackend, NamesItselfAndWhatItHasKernelsFor) {
    const SystemClock clock;
    const HostBackend host(
        scalar(), clock, {.memory_bytes = kMiB, .refused_types = {quant::QuantType::kQ4_1}});
    EXPECT_EQ(host.name(), "host (cpu (scalar, 1 threads), 1MiB)");
    EXPECT_EQ(host.device(), DeviceId::kDevice);
    EXPECT_TRUE(host.supports(Linear{}, quant::QuantType::kQ8_0));
    EXPECT_FALSE(host.supports(Linear{}, quant::QuantType::kQ4_1));
    EXPECT_FALSE(host.supports(RmsNorm{}, quant::QuantType::kQ8_0));
}

TEST(HostBackend, KeepsToItsMemory) {
    const SystemClock clock;
    HostBackend host(scalar(), clock, {.memory_bytes = 3 * kMiB});
    const auto first = host.allocate_chunk(2 * kMiB);
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(host.used_bytes(), 2 * kMiB);
    const auto refused = host.allocate_chunk(kMiB + 1);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
    EXPECT_TRUE(host.allocate_chunk(kMiB).has_value());
    host.free_chunk(*first);
    EXPECT_EQ(host.used_bytes(), kMiB);
    EXPECT_TRUE(host.allocate_chunk(2 * kMiB).has_value());
}

TEST(HostBackend, OrdersCopiesAndOpsAsToldThoughEachIsLate) {
    // x += y over and over, y exchanged before and x read after each: any step out of order gives
    // another sum.
    const SystemClock clock;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        HostBackend host(
            scalar(),
            clock,
            {.threads = 2, .faults = {.seed = seed, .delay_max = std::chrono::microseconds(300)}});
        Step step(host);
        const OpRecord add{.op = Add{.x = 0, .y = 1, .width = kWidth}};
        constexpr std::size_t kRounds = 40;
        const std::size_t n = kRows * kWidth;
        std::vector<std::vector<float>> sums(kRounds, std::vector<float>(n));
        std::vector<std::vector<float>> addends;
        for (std::size_t round = 0; round < kRounds; ++round) {
            addends.emplace_back(n, static_cast<float>(round + 1));
        }
        auto* x = reinterpret_cast<std::byte*>(step.slot(0).data);
        auto* y = reinterpret_cast<std::byte*>(step.slot(1).data);
        const std::vector<float> zero(n, 0.0F);
        ASSERT_TRUE(host.copy_in(x, bytes_of(zero)).has_value());
        std::optional<Event> last;
        for (std::size_t round = 0; round < kRounds; ++round) {
            const auto in = host.copy_in(y, bytes_of(addends[round]));
            ASSERT_TRUE(in.has_value());
            host.order_after(Queue::kCompute, *in);
            const auto computed = host.submit({&add, 1}, step.context());
            ASSERT_TRUE(computed.has_value());
            host.order_after(Queue::kCopy, *computed);
            const auto out = host.copy_out(std::as_writable_bytes(std::span(sums[round])), x);
            ASSERT_TRUE(out.has_value());
            last = *out;
        }
        ASSERT_TRUE(host.wait(*last).has_value());
        EXPECT_TRUE(host.done(*last));
        for (std::size_t round = 0; round < kRounds; ++round) {
            const auto sum = static_cast<float>((round + 1) * (round + 2) / 2);
            ASSERT_EQ(sums[round], std::vector<float>(n, sum)) << "round " << round;
        }
    }
}

TEST(HostBackend, LetsTheCallerGoOnWhileItWorks) {
    const SystemClock clock;
    const auto ops = layer_ops();
    auto host = std::make_unique<HostBackend>(
        scalar(), clock, HostOptions{.pace = {.read_gbps = 1e-6}});  // minutes for each
    Step step(*host);
    const auto first = host->submit(ops, step.context());
    const auto second = host->submit(ops, step.context());
    ASSERT_TRUE(first.has_value() && second.has_value());
    EXPECT_FALSE(host->done(*first));
    EXPECT_FALSE(host->done(*second));
    step.leave_memory();
    host.reset();
}

TEST(HostBackend, TakesNoLessThanTheModelledTime) {
    const SystemClock clock;
    const auto ops = layer_ops();
    HostBackend host(
        scalar(),
        clock,
        {.pace = {.read_gbps = 0.02, .link_gbps = 0.01, .latency = std::chrono::milliseconds(1)}});
    Step step(host);
    std::uint64_t bytes = 0;
    for (const OpRecord& record : ops) {
        bytes += op_work(record, step.context()).bytes;
    }
    const Nanoseconds begin = clock.now();
    const auto event = host.submit(ops, step.context());
    ASSERT_TRUE(event.has_value() && host.wait(*event).has_value());
    const double expected = 1e-3 + static_cast<double>(bytes) / 0.02e9;
    EXPECT_GT(expected, 5e-3);
    EXPECT_GE(std::chrono::duration<double>(clock.now() - begin).count(), expected);
    // The latency may be over before the queue takes the work up.
    EXPECT_GE(to_seconds(host.work_time(*event).duration()), expected - 1e-3);

    std::vector<float> values(25000);
    const auto chunk = host.allocate_chunk(100000);
    ASSERT_TRUE(chunk.has_value());
    const Nanoseconds copy_begin = clock.now();
    const auto copied = host.copy_in(chunk->data, bytes_of(values));
    ASSERT_TRUE(copied.has_value() && host.wait(*copied).has_value());
    EXPECT_GE(std::chrono::duration<double>(clock.now() - copy_begin).count(), 11e-3);
}

TEST(HostBackend, WakesWhoeverSleepsAndWhoeverLooks) {
    // Without a poll every wait sleeps; with one that is never over none does. Each copy waits for
    // ops and each op for a copy.
    const SystemClock clock;
    for (const Nanoseconds poll : {Nanoseconds(0), Nanoseconds(std::chrono::seconds(30))}) {
        HostBackend host(scalar(),
                         clock,
                         {.faults = {.delay_max = std::chrono::microseconds(200)}, .poll = poll});
        Step step(host);
        const OpRecord add{.op = Add{.x = 0, .y = 1, .width = kWidth}};
        std::vector<float> values(kRows * kWidth, 1.0F);
        auto* y = reinterpret_cast<std::byte*>(step.slot(1).data);
        for (int round = 0; round < 50; ++round) {
            const auto in = host.copy_in(y, bytes_of(values));
            ASSERT_TRUE(in.has_value());
            host.order_after(Queue::kCompute, *in);
            const auto computed = host.submit({&add, 1}, step.context());
            ASSERT_TRUE(computed.has_value());
            host.order_after(Queue::kCopy, *computed);
            if (round % 3 == 0) {
                ASSERT_TRUE(host.wait(*computed).has_value());
                EXPECT_TRUE(host.done(*in));
            }
        }
        ASSERT_TRUE(host.reserve({}).has_value());
    }
}

TEST(HostBackend, SleepsWhenThereIsNothingToDo) {
    const SystemClock clock;
    HostBackend host(scalar(), clock, {});
    Step step(host);
    const auto ops = layer_ops();
    const auto event = host.submit(ops, step.context());
    ASSERT_TRUE(event.has_value() && host.wait(*event).has_value());
    const std::clock_t before = std::clock();
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable never;
    never.wait_for(lock, std::chrono::milliseconds(200));
    const double used = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    EXPECT_LT(used, 0.05) << "of two threads that would take 0.4 s";
}

TEST(HostBackend, SaysWhenItWorkedInTheOrderOfTheQueue) {
    const SystemClock clock;
    const auto ops = layer_ops();
    HostBackend host(scalar(), clock, {.pace = {.read_gbps = 0.05}});
    Step step(host);
    const Nanoseconds before = clock.now();
    const auto first = host.submit(ops, step.context());
    const auto second = host.submit(ops, step.context());
    ASSERT_TRUE(first.has_value() && second.has_value());
    EXPECT_FALSE(host.work_time(*second).is_known());
    ASSERT_TRUE(host.wait(*second).has_value());
    const WorkTime one = host.work_time(*first);
    const WorkTime two = host.work_time(*second);
    EXPECT_GE(one.begin, before);
    EXPECT_GT(one.end, one.begin);
    EXPECT_GE(two.begin, one.end);
    EXPECT_LE(two.end, clock.now());
}

TEST(OpWork, CountsWeightsKeysAndArithmetic) {
    ThreadPool pool(1);
    CpuBackend cpu(scalar(), pool);
    Step step(cpu);
    const StepContext context = step.context();
    const auto ops = layer_ops();
    const OpWork qkv = op_work(ops[1], context);
    EXPECT_EQ(qkv.bytes, 3U * 64 * 64 * 4);
    EXPECT_EQ(qkv.flops, 3U * 2 * 64 * 64 * kRows);
    // One token sees 41 positions; four see 4 to 7, of which 7 are read.
    const OpWork attention = op_work(ops[3], context);
    EXPECT_EQ(attention.bytes, (41U + 7) * 2 * kHeads * kHeadDim * 4);
    EXPECT_EQ(attention.flops, (41U + 4 + 5 + 6 + 7) * 4 * kHeads * kHeadDim);
    // Ten choices among three experts.
    const OpWork experts = op_work(ops[11], context);
    EXPECT_EQ(experts.bytes, 3U * 3 * 64 * 96 * 4);
    EXPECT_EQ(experts.flops, 3U * 2 * 64 * 96 * 10);
    EXPECT_EQ(op_work(ops[5], context).bytes, 0U);
    OpRecord windowed = ops[3];
    std::get<Attention>(windowed.op).window = 5;
    EXPECT_EQ(op_work(windowed, context).bytes, (5U + 5) * 2 * kHeads * kHeadDim * 4);
}

TEST(HostBackend, FailsTheAllocationThatIsPlannedToFail) {
    const SystemClock clock;
    HostBackend host(scalar(), clock, {.faults = {.failed_allocation = 2}});
    EXPECT_TRUE(host.allocate_chunk(100).has_value());
    const auto failed = host.allocate_chunk(100);
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().code, ErrorCode::kOutOfMemory);
    EXPECT_TRUE(host.allocate_chunk(100).has_value());
}

TEST(HostBackend, GivesHostMemoryBesideItsOwn) {
    const SystemClock clock;
    // The leak check of the sanitizers' build sees whether the end frees what is left.
    HostBackend host(scalar(), clock, {.memory_bytes = kMiB});
    const auto pinned = host.allocate_host(2 * kMiB);
    ASSERT_TRUE(pinned.has_value());
    EXPECT_GE(pinned->size_bytes, 2 * kMiB);
    EXPECT_EQ(host.used_bytes(), 0U);
    const auto left = host.allocate_host(1);
    ASSERT_TRUE(left.has_value());
    EXPECT_NE(left->data, pinned->data);
    const auto chunk = host.allocate_chunk(kMiB);
    ASSERT_TRUE(chunk.has_value());

    const std::span<std::byte> bytes(pinned->data, kMiB);
    std::fill(bytes.begin(), bytes.end(), std::byte{7});
    const auto in = host.copy_in(chunk->data, bytes);
    ASSERT_TRUE(in.has_value() && host.wait(*in).has_value());
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    const auto out = host.copy_out(bytes, chunk->data);
    ASSERT_TRUE(out.has_value() && host.wait(*out).has_value());
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{7}), std::ptrdiff_t{kMiB});
    host.free_host(*pinned);
    EXPECT_EQ(host.used_bytes(), kMiB);
}

TEST(HostBackend, FailsTheHostAllocationThatIsPlannedToFail) {
    const SystemClock clock;
    HostBackend host(scalar(), clock, {.faults = {.failed_host = 2}});
    EXPECT_TRUE(host.allocate_host(100).has_value());
    EXPECT_TRUE(host.allocate_chunk(100).has_value());
    const auto failed = host.allocate_host(100);
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().code, ErrorCode::kOutOfMemory);
    EXPECT_TRUE(host.allocate_host(100).has_value());
}

TEST(HostBackend, FailsTheSubmissionThatIsPlannedToFailAndGoesOn) {
    const SystemClock clock;
    HostBackend host(scalar(), clock, {.faults = {.failed_submission = 1}});
    Step step(host);
    const auto ops = layer_ops();
    const auto failed = host.submit(ops, step.context());
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().code, ErrorCode::kOutOfMemory);
    const auto event = host.submit(ops, step.context());
    ASSERT_TRUE(event.has_value());
    EXPECT_TRUE(same_bits(step.read(*event), on_the_cpu()));
}

TEST(HostBackend, IsLostFromTheSubmissionThatIsPlanned) {
    const SystemClock clock;
    HostBackend host(scalar(), clock, {.faults = {.lost_at_submission = 2}});
    Step step(host);
    const auto ops = layer_ops();
    const auto first = host.submit(ops, step.context());
    ASSERT_TRUE(first.has_value());
    const auto second = host.submit(ops, step.context());
    ASSERT_TRUE(second.has_value());
    std::vector<float> back(kRows * kWidth, 7.0F);
    host.order_after(Queue::kCopy, *second);
    const auto out = host.copy_out(std::as_writable_bytes(std::span(back)),
                                   reinterpret_cast<const std::byte*>(step.slot(0).data));
    EXPECT_TRUE(host.wait(*first).has_value());
    for (const auto& event : {second, out}) {
        // The copy may be refused already where the loss was quick.
        const Status status = event ? host.wait(*event) : Status(tl::unexpected(event.error()));
        ASSERT_FALSE(status.has_value());
        EXPECT_EQ(status.error().code, ErrorCode::kDeviceLost);
    }
    EXPECT_EQ(back, std::vector<float>(kRows * kWidth, 7.0F));
    EXPECT_EQ(host.submit(ops, step.context()).error().code, ErrorCode::kDeviceLost);
    EXPECT_EQ(host.allocate_chunk(1).error().code, ErrorCode::kDeviceLost);
    EXPECT_EQ(host.allocate_host(1).error().code, ErrorCode::kDeviceLost);
}

TEST(HostBackend, RefusesWorkWhenItsQueueIsFull) {
    const SystemClock clock;
    const std::vector<std::byte> data(64);
    HostBackend host(scalar(), clock, {.pace = {.latency = std::chrono::seconds(60)}});
    const auto chunk = host.allocate_chunk(64);
    ASSERT_TRUE(chunk.has_value());
    int n_taken = 0;
    while (n_taken < 10000 && host.copy_in(chunk->data, data).has_value()) {
        ++n_taken;
    }
    EXPECT_EQ(n_taken, 256);
    EXPECT_EQ(host.copy_in(chunk->data, data).error().code, ErrorCode::kOverloaded);
}

TEST(HostBackend, CopiesStripsInTheOrderOfTheOps) {
    const SystemClock clock;
    HostBackend host(scalar(), clock, {.faults = {.delay_max = std::chrono::microseconds(200)}});
    Step step(host);
    const auto x = reinterpret_cast<std::byte*>(step.slot(0).data);
    const auto ops = layer_ops();
    constexpr std::size_t kColumns = 4;
    const Strips columns{.row_bytes = kColumns * sizeof(float),
                         .n_rows = kRows,
                         .device_stride = kWidth * sizeof(float),
                         .host_stride = (kColumns + 1) * sizeof(float)};
    const Strips whole{.row_bytes = kRows * kWidth * sizeof(float)};
    for (const Queue queue : {Queue::kCompute, Queue::kCopy}) {
        std::vector<float> narrow(kRows * (kColumns + 1));
        for (std::size_t i = 0; i < narrow.size(); ++i) {
            narrow[i] = static_cast<float>(i);
        }
        const auto narrow_bytes = reinterpret_cast<std::byte*>(narrow.data());
        std::vector<float> before(kRows * kWidth);
        std::vector<float> after(kRows * kWidth);
        const auto at = [](std::vector<float>& values) {
            return reinterpret_cast<std::byte*>(values.data());
        };
        ASSERT_TRUE(host.copy_strips_out(queue, at(before), x, whole).has_value());
        ASSERT_TRUE(host.copy_strips_in(queue, x, narrow_bytes, columns).has_value());
        const auto read = host.copy_strips_out(queue, at(after), x, whole);
        ASSERT_TRUE(read.has_value());
        host.order_after(Queue::kCompute, *read);
        const auto ran = host.submit(ops, step.context());
        ASSERT_TRUE(ran.has_value() && host.wait(*read).has_value());
        std::vector<float> back(narrow.size(), -1.0F);
        const auto strips = host.copy_strips_out(Queue::kCompute, at(back), x, columns);
        ASSERT_TRUE(strips.has_value() && host.wait(*strips).has_value());
        for (std::size_t row = 0; row < kRows; ++row) {
            for (std::size_t i = 0; i < kWidth; ++i) {
                const float expected =
                    i < kColumns ? narrow[row * (kColumns + 1) + i] : before[row * kWidth + i];
                EXPECT_EQ(after[row * kWidth + i], expected);
            }
            EXPECT_NE(back[row * (kColumns + 1)], narrow[row * (kColumns + 1)]) << "an op ran";
            EXPECT_EQ(back[row * (kColumns + 1) + kColumns], -1.0F) << "not of the strip";
        }
    }
}

TEST(HostBackend, EndsWithWorkStillQueued) {
    const SystemClock clock;
    const Nanoseconds begin = clock.now();
    std::vector<float> back(kRows * kWidth);
    const auto ops = layer_ops();
    for (int i = 0; i < 20; ++i) {
        const bool paced = i % 2 == 0;  // else something is really running
        auto host = std::make_unique<HostBackend>(
            scalar(), clock, HostOptions{.threads = 2, .pace = {.read_gbps = paced ? 1e-6 : 0.0}});
        auto step = std::make_unique<Step>(*host);
        for (int n = 0; n < 10; ++n) {
            const auto event = host->submit(ops, step->context());
            ASSERT_TRUE(event.has_value());
            host->order_after(Queue::kCopy, *event);
            const auto read =
                host->copy_out(std::as_writable_bytes(std::span(back)),
                               reinterpret_cast<const std::byte*>(step->slot(0).data));
            ASSERT_TRUE(read.has_value());
            host->order_after(Queue::kCompute, *read);  // which writes what is read
        }
        step->leave_memory();
        host.reset();
    }
    EXPECT_LT(clock.now() - begin, std::chrono::seconds(60));
}

TEST(HostBackendTruth, RefusesWhatOthersHaveTakenAtTheTimeOfTheAllocation) {
    const SystemClock clock;
    HostTruth truth = {.left_bytes = 3 * kMiB};
    HostBackend device(*kernels::find_kernels(Isa::kScalar),
                       clock,
                       {.memory_bytes = 8 * kMiB, .truth = [&] { return truth; }});
    const auto first = device.allocate_chunk(2 * kMiB);
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(device.allocate_chunk(2 * kMiB).error().code, ErrorCode::kOutOfMemory);
    truth.left_bytes = kMiB;  // less than is ours: what is there stays, no more is given
    EXPECT_EQ(device.allocate_chunk(1).error().code, ErrorCode::kOutOfMemory);
    EXPECT_EQ(device.memory_use().bytes, 2 * kMiB);
    EXPECT_EQ(device.memory_use().n_refused, 2U);
    truth.left_bytes = 100 * kMiB;
    EXPECT_FALSE(device.allocate_chunk(7 * kMiB).has_value()) << "it has 8 MiB in all";
    EXPECT_TRUE(device.allocate_chunk(6 * kMiB).has_value());
}

TEST(HostBackendTruth, ALossHoldsForThisDeviceAndNotForTheNext) {
    const SystemClock clock;
    HostTruth truth = {.left_bytes = kMiB};
    const HostOptions options = {.truth = [&] { return truth; }};
    HostBackend device(*kernels::find_kernels(Isa::kScalar), clock, options);
    const auto chunk = device.allocate_chunk(64);
    ASSERT_TRUE(chunk.has_value());
    const std::vector<float> values(16);
    EXPECT_TRUE(device.copy_in(chunk->data, bytes_of(values)).has_value());
    truth.n_losses = 1;
    EXPECT_EQ(device.copy_in(chunk->data, bytes_of(values)).error().code, ErrorCode::kDeviceLost);
    EXPECT_EQ(device.allocate_chunk(64).error().code, ErrorCode::kDeviceLost);
    device.free_chunk(*chunk);
    EXPECT_EQ(device.used_bytes(), 0U);
    HostBackend next(*kernels::find_kernels(Isa::kScalar), clock, options);
    EXPECT_TRUE(next.allocate_chunk(64).has_value());
}

}  // namespace
}  // namespace ballast::backend
