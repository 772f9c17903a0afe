// SPDX-License-Identifier: MIT
// What follows from times: how long the device stood still for a tile, and how much of the copying
// was hidden.
#include "engine/runtime/lane_log.h"

#include <map>

#include <gtest/gtest.h>

namespace ballast::runtime {
namespace {

using backend::Event;
using backend::WorkTime;

constexpr Event event(int number) {
    return Event{static_cast<std::uint64_t>(number)};
}

constexpr Nanoseconds us(int n) {
    return std::chrono::microseconds(n);
}

/// A log, and the times that its device knows.
class Logged {
  public:
    explicit Logged(std::size_t n_notes = 100) { log.reserve(n_notes); }

    void knows(int number, int begin, int end) { times_[number] = {us(begin), us(end)}; }
    void cpu(int begin, int end) {
        log.ran({.lane = Lane::kCpu, .begin = us(begin), .end = us(end)});
    }
    void copy(int number) { log.put({.lane = Lane::kCopy, .bytes = 1000}, event(number)); }
    void device(int number, const PutBehind& behind = {}) {
        log.put({.lane = Lane::kDevice, .first_group = 1}, event(number), behind);
    }
    const TransferStats& settle() {
        log.settle([this](Event of) {
            const auto found = times_.find(static_cast<int>(of));
            return found == times_.end() ? WorkTime() : found->second;
        });
        return log.stats();
    }

    LaneLog log;

  private:
    std::map<int, WorkTime> times_;
};

TEST(LaneLog, CountsTheTimeInWhichTheDeviceStoodStillForATileAlone) {
    Logged logged;
    logged.knows(1, 0, 100);    // a tile
    logged.knows(2, 10, 40);    // what the device did before
    logged.knows(3, 100, 130);  // what reads the tile
    logged.device(2);
    logged.device(3, {.last = event(2), .tile = event(1), .put_at = us(5)});
    EXPECT_EQ(logged.settle().stalled, us(60)) << "from 40 to 100";

    logged.knows(4, 100, 150);
    logged.knows(5, 190, 200);
    logged.device(5, {.last = event(3), .tile = event(4), .put_at = us(180)});
    EXPECT_EQ(logged.settle().stalled, us(60)) << "nobody had ordered it before the tile was there";

    logged.knows(6, 200, 260);
    logged.knows(7, 260, 270);
    logged.device(7, {.last = event(5), .tile = event(6), .put_at = us(220)});
    EXPECT_EQ(logged.settle().stalled, us(60 + 40)) << "from when it was ordered";
}

TEST(LaneLog, CountsHowMuchOfACopyWasBesideComputation) {
    Logged logged;
    logged.knows(1, 0, 100);
    logged.copy(1);
    logged.cpu(10, 30);
    logged.knows(2, 20, 50);
    logged.device(2);  // both at once count once
    logged.cpu(80, 200);
    EXPECT_EQ(logged.settle().copied, us(100));
    EXPECT_EQ(logged.settle().overlapped, us(40 + 20));
    EXPECT_DOUBLE_EQ(logged.log.stats().overlap_ratio(), 0.6);
}

TEST(LaneLog, TakesWhatCrossesOnTheComputeQueueForNoComputation) {
    Logged logged;
    logged.knows(1, 0, 100);
    logged.copy(1);
    logged.knows(2, 20, 50);
    logged.log.put({.lane = Lane::kDevice, .bytes = 64}, event(2));
    EXPECT_EQ(logged.settle().copied, us(100));
    EXPECT_EQ(logged.settle().overlapped, us(0));
}

TEST(LaneLog, AsksAgainForACopyThatWasNotDone) {
    Logged logged;
    logged.log.keep_spans();
    logged.copy(1);
    logged.cpu(0, 40);
    EXPECT_EQ(logged.settle().copied, us(0));
    logged.knows(1, 10, 90);
    logged.cpu(60, 80);
    EXPECT_EQ(logged.settle().copied, us(80));
    EXPECT_EQ(logged.log.stats().overlapped, us(30 + 20)) << "also of what was settled before";
    ASSERT_EQ(logged.log.spans().size(), 3U);
    EXPECT_EQ(logged.log.spans()[1].lane, Lane::kCopy);
    EXPECT_EQ(logged.log.spans()[1].end, us(90));
}

TEST(LaneLog, ForgetsWhatExceedsItsMemory) {
    Logged logged(4);
    logged.log.keep_spans();
    for (int i = 0; i < 10; ++i) {
        logged.cpu(i, i + 1);
        logged.copy(100 + i);  // of a device that knows no times
    }
    logged.settle();
    EXPECT_EQ(logged.log.spans().size(), 2U);
    for (int i = 0; i < 10; ++i) {
        logged.cpu(20 + i, 21 + i);
        logged.settle();
    }
    EXPECT_EQ(logged.log.spans().size(), 12U);
    EXPECT_EQ(logged.log.stats().copied, us(0));
}

TEST(LaneLog, KnowsWhatTheCpuDidWithoutADevice) {
    LaneLog log;
    log.reserve(4);
    log.keep_spans();
    log.ran({.lane = Lane::kCpu, .first_group = 3, .begin = us(1), .end = us(2)});
    log.settle(nullptr);
    ASSERT_EQ(log.spans().size(), 1U);
    EXPECT_EQ(log.spans()[0].first_group, 3);
}

}  // namespace
}  // namespace ballast::runtime
