// SPDX-License-Identifier: MIT
#include "scheduler/sim/load_truth.h"

#include <gtest/gtest.h>

#include "scheduler/load/sample_script.h"
#include "scheduler/sim/load_traces.h"
#include "scheduler/sim/sim_monitor.h"

namespace ballast::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LoadTruth, CountsMemoryAsTheServerDoes) {
    const std::vector<LoadSample> unknown = {{.time = seconds(1), .others_bytes = 1000000000}};
    const DeviceMemory net = device_memory(unknown, 6.3e9, 6.3e9);
    EXPECT_EQ(net.headroom_bytes, net.total_bytes - 6300000000ULL);
    EXPECT_NEAR(
        static_cast<double>(net.headroom_bytes) / static_cast<double>(net.total_bytes), 0.08, 1e-6);
    const auto truths = load_truths(unknown, net);
    ASSERT_EQ(truths.size(), 2U);
    EXPECT_EQ(truths[0].room_bytes, 6300000000ULL);
    EXPECT_EQ(truths[1].room_bytes, 5300000000ULL);

    const std::vector<LoadSample> known = {{.device_total_bytes = 4000000000}};
    const DeviceMemory small = device_memory(known, 6.3e9, 6.3e9);
    EXPECT_EQ(small.headroom_bytes, 512ULL << 20U);
    EXPECT_EQ(load_truths(known, small)[0].room_bytes, 4000000000ULL - (512ULL << 20U));
}

TEST(LoadTruth, ForgetsTheDeviceWhenTheComputerSleepsOrTheDeviceIsLost) {
    const std::vector<LoadSample> trace = {{.time = seconds(1), .event = LoadEvent::kDeviceLost},
                                           {.time = seconds(2), .device_busy = 0.5},
                                           {.time = seconds(9), .event = LoadEvent::kSuspend},
                                           {.time = seconds(11), .event = LoadEvent::kResume}};
    const auto truths = load_truths(trace, device_memory(trace, 6e9, 6e9));
    ASSERT_EQ(truths.size(), 6U);
    EXPECT_FALSE(truths[1].device_works);
    EXPECT_FALSE(truths[2].device_works);
    EXPECT_EQ(truths[3].time, seconds(1) + kResetTime);
    EXPECT_TRUE(truths[3].device_works);
    EXPECT_EQ(truths[3].conditions.device, 0.5);
    EXPECT_TRUE(truths[4].suspended);
    EXPECT_FALSE(truths[5].suspended);
    EXPECT_EQ(truths[5].n_wipes, 2);
}

TEST(SimMonitor, TellsTheTraceAsItIsWithoutFaults) {
    const std::vector<LoadSample> trace = {
        {.time = seconds(1), .others_bytes = 5, .device_busy = 0.4},
        {.time = seconds(2), .event = LoadEvent::kSuspend}};
    SimMonitor monitor(trace, 1000, {});
    EXPECT_EQ(monitor.sample(milliseconds(500))->others_bytes, 0U);
    const auto busy = monitor.sample(milliseconds(1500));
    EXPECT_EQ(busy->device_busy, 0.4);
    EXPECT_EQ(busy->device_total_bytes, 1000U);
    EXPECT_EQ(busy->time, milliseconds(1500));
    EXPECT_EQ(monitor.sample(seconds(3))->event, LoadEvent::kSuspend);
    EXPECT_EQ(monitor.sample(seconds(3))->event, LoadEvent::kNone) << "an event is told once";
}

TEST(SimMonitor, IsLateNoisyAndWrongAsItIsTold) {
    const std::vector<LoadSample> trace = {{}, {.time = seconds(1), .device_busy = 0.5}};
    SimMonitor late(trace, 1000, {.lag = milliseconds(300)});
    EXPECT_EQ(late.sample(milliseconds(1250))->device_busy, 0.0);
    EXPECT_EQ(late.sample(milliseconds(1300))->device_busy, 0.5);
    EXPECT_EQ(late.sample(milliseconds(1300))->time, seconds(1));
    SimMonitor noisy(trace, 1000, {.noise = 0.25});
    SimMonitor wrong(trace, 1000, {.wrong = 0.5});
    double least = 1.0;
    double most = 0.0;
    int n_wrong = 0;
    for (int i = 0; i < 400; ++i) {
        const double busy = noisy.sample(seconds(2))->device_busy;
        least = std::min(least, busy);
        most = std::max(most, busy);
        const auto sample = wrong.sample(seconds(2));
        n_wrong +=
            !(sample->device_busy == 0.5) || sample->link_busy > 1.0 || sample->others_bytes > 1000;
    }
    EXPECT_NEAR(least, 0.375, 0.01);
    EXPECT_NEAR(most, 0.625, 0.01);
    EXPECT_GT(n_wrong, 100);
    EXPECT_LT(n_wrong, 200) << "a quarter of the wrong ones say that others use nothing";
}

TEST(LoadTraces, AreSampleScripts) {
    for (const LoadTrace& trace : load_traces()) {
        SCOPED_TRACE(trace.name);
        EXPECT_LT(trace.samples.back().time, trace.duration);
        const auto read = parse_sample_script(write_sample_script(trace.samples));
        ASSERT_TRUE(read) << read.error().message;
        EXPECT_EQ(*read, trace.samples);
    }
}

}  // namespace
}  // namespace ballast::scheduler
