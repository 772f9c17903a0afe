// SPDX-License-Identifier: MIT
#include "scheduler/load/load_control.h"

#include <string_view>

#include <gtest/gtest.h>

namespace ballast::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t kGib = 1ULL << 30U;

LoadRules rules() {
    return {.memory = {.headroom_bytes = kGib, .cap_bytes = 6 * kGib}};
}

LoadSample taken(std::uint64_t others) {
    LoadSample sample;
    sample.device_total_bytes = 8 * kGib;
    sample.others_bytes = others;
    return sample;
}

/// Works all the time, a step each 10 ms.
class Control {
  public:
    void run(Nanoseconds time, LoadSample sample) {
        for (const Nanoseconds end = now_ + time; now_ < end; now_ += milliseconds(10)) {
            control.working(now_);
            sample.time = now_;
            control.observe(now_, sample);
            sample.event = LoadEvent::kNone;
        }
    }
    const LoadDirective& directive() { return control.directive(now_); }
    Nanoseconds now() const { return now_; }

    LoadControl control = LoadControl(rules());

  private:
    Nanoseconds now_ = seconds(1);
};

TEST(LoadControl, UsesItsWholeCapWhereNobodyElseDoes) {
    Control at;
    EXPECT_EQ(at.directive().budget_bytes, 6 * kGib) << "before the first sample";
    at.run(seconds(1), taken(0));
    EXPECT_EQ(at.directive().level, LoadLevel::kFull);
    EXPECT_EQ(at.directive().budget_bytes, 6 * kGib);
    EXPECT_EQ(at.directive().reason, "");
    EXPECT_TRUE(at.directive().use_device);
}

TEST(LoadControl, IsPoliteToWhoTakesTheLinkOrTheCpu) {
    Control at;
    LoadSample link = taken(0);
    link.link_busy = 0.5;
    at.run(seconds(1), link);
    EXPECT_EQ(at.directive().level, LoadLevel::kPolite);
    EXPECT_EQ(at.directive().reason, "The device's link is busy for other programs.");
    LoadSample cpu = taken(0);
    cpu.cpu_psi = 0.5;
    cpu.process = "make";
    at.run(seconds(1), cpu);
    EXPECT_EQ(at.directive().level, LoadLevel::kPolite);
    EXPECT_EQ(at.directive().reason, "The CPU is busy for make.");
    EXPECT_TRUE(at.directive().use_device);
    EXPECT_EQ(at.directive().budget_bytes, 6 * kGib);
}

TEST(LoadControl, ShrinksWithTheSampleAndGrowsAfterQuiet) {
    Control at;
    at.run(seconds(1), taken(0));
    at.control.holds(6 * kGib);
    const std::uint64_t version = at.directive().version;
    LoadSample game = taken(4 * kGib);
    game.process = "game";
    at.run(milliseconds(10), game);
    EXPECT_EQ(at.directive().budget_bytes, 3 * kGib);
    EXPECT_EQ(at.directive().level, LoadLevel::kPolite);
    EXPECT_EQ(at.directive().reason, "Of the device's memory 3.0 GiB are left beside game.");
    EXPECT_GT(at.directive().version, version);
    at.control.holds(3 * kGib);
    at.run(seconds(5), game);
    EXPECT_EQ(at.control.growth(at.now(), 3 * kGib, 6 * kGib), 0U);

    at.run(milliseconds(490), taken(0));
    EXPECT_EQ(at.directive().budget_bytes, 6 * kGib);
    EXPECT_EQ(at.control.growth(at.now(), 3 * kGib, 6 * kGib), 0U) << "half a second since";
    at.run(milliseconds(30), taken(0));
    EXPECT_EQ(at.control.growth(at.now(), 3 * kGib, 6 * kGib), 3 * kGib);
}

TEST(LoadControl, GrowsNoMoreForAWhileAfterNewPressure) {
    Control at;
    at.run(seconds(1), taken(0));
    at.control.holds(6 * kGib);
    at.run(milliseconds(20), taken(4 * kGib));
    at.control.holds(3 * kGib);
    at.run(milliseconds(300), taken(0));
    EXPECT_EQ(at.control.growth(at.now(), 3 * kGib, 6 * kGib), 0U);
    at.run(milliseconds(300), taken(0));
    EXPECT_EQ(at.control.growth(at.now(), 3 * kGib, 6 * kGib), 3 * kGib);
    // It did not pay: the next wait is a second.
    at.control.grew(at.now(), 3 * kGib, 0.2);
    at.control.gained(0.05, 0.1);
    at.run(milliseconds(20), taken(4 * kGib));
    EXPECT_EQ(at.control.backoff().wait(), seconds(1));
}

TEST(LoadControl, GrowsWithinWhatPressureHasLeftWithoutWaitingForQuiet) {
    Control at;
    at.run(seconds(1), taken(0));
    at.control.holds(6 * kGib);
    for (int i = 0; i < 10; ++i) {
        at.run(milliseconds(100), taken(4 * kGib));
        EXPECT_EQ(at.directive().budget_bytes, 3 * kGib);
        at.control.holds(2 * kGib);
        if (i > 3) {
            EXPECT_EQ(at.control.growth_limit(at.now()), 3 * kGib);
            EXPECT_EQ(at.control.growth(at.now(), 2 * kGib, 6 * kGib), kGib);
        }
        at.run(milliseconds(100), taken(0));
        EXPECT_LE(at.control.growth(at.now(), 2 * kGib, 6 * kGib), kGib) << "it is never quiet";
    }
}

TEST(LoadControl, TakesSmallLossesForNoPressure) {
    Control at;
    at.run(seconds(1), taken(0));
    at.control.holds(2 * kGib);
    for (int i = 0; i < 20; ++i) {
        at.run(milliseconds(20), taken(kGib + (i % 2 == 0 ? 100U << 20U : 0)));
    }
    EXPECT_GT(at.control.growth(at.now(), 2 * kGib, 6 * kGib), 0U);
    // But many of them in one direction count.
    for (int i = 0; i < 40; ++i) {
        at.run(milliseconds(10), taken(kGib + static_cast<std::uint64_t>(i) * (50U << 20U)));
    }
    EXPECT_EQ(at.control.growth(at.now(), 2 * kGib, 6 * kGib), 0U);
}

TEST(LoadControl, LeavesTheDeviceToOthersThatKeepItBusy) {
    Control at;
    LoadSample busy = taken(0);
    busy.device_busy = 0.7;
    at.run(seconds(1), busy);
    EXPECT_EQ(at.directive().level, LoadLevel::kPolite);
    EXPECT_NEAR(at.directive().device_share, 0.3, 0.08);
    EXPECT_EQ(at.directive().budget_bytes, 6 * kGib) << "the memory may stay";
    busy.device_busy = 1.0;
    at.run(seconds(1), busy);
    EXPECT_EQ(at.directive().level, LoadLevel::kMinimal);
    EXPECT_FALSE(at.directive().use_device);
    EXPECT_EQ(at.directive().reason, "The device is busy for other programs.");
    at.run(seconds(1), taken(0));
    EXPECT_EQ(at.directive().level, LoadLevel::kFull);
}

TEST(LoadControl, IsMinimalWhereNoMemoryIsLeft) {
    Control at;
    at.run(seconds(1), taken(8 * kGib));
    EXPECT_EQ(at.directive().level, LoadLevel::kMinimal);
    EXPECT_EQ(at.directive().budget_bytes, 0U);
}

TEST(LoadControl, IsPoliteOnBattery) {
    Control at;
    LoadSample sample = taken(0);
    sample.on_battery = true;
    at.run(seconds(1), sample);
    EXPECT_EQ(at.directive().level, LoadLevel::kPolite);
    EXPECT_EQ(at.directive().device_share, 0.5);
    EXPECT_EQ(at.directive().reason, "The computer runs on its battery.");
}

TEST(LoadControl, GivesEverythingBackWhilePausedOrAsleep) {
    Control at;
    at.run(seconds(1), taken(0));
    at.control.pause();
    EXPECT_EQ(at.directive().level, LoadLevel::kPaused);
    EXPECT_EQ(at.directive().budget_bytes, 0U);
    at.control.resume(at.now());
    EXPECT_EQ(at.directive().level, LoadLevel::kFull);
    LoadSample sample = taken(0);
    sample.event = LoadEvent::kSuspend;
    at.run(milliseconds(10), sample);
    EXPECT_EQ(at.directive().level, LoadLevel::kPaused);
    EXPECT_FALSE(at.directive().use_device);
    sample.event = LoadEvent::kResume;
    at.run(milliseconds(10), sample);
    EXPECT_EQ(at.directive().level, LoadLevel::kFull);
}

TEST(LoadControl, TriesALostDeviceAgainAfterLongerAndLongerWaits) {
    Control at;
    at.run(seconds(1), taken(0));
    for (const int wait : {1, 2, 4, 8, 16, 32, 60, 60}) {
        at.control.device_lost(at.now());
        at.control.device_lost(at.now());
        EXPECT_EQ(at.directive().level, LoadLevel::kDegraded);
        EXPECT_EQ(at.directive().budget_bytes, 0U);
        EXPECT_FALSE(at.control.may_retry(at.now() + seconds(wait) - milliseconds(1)));
        EXPECT_TRUE(at.control.may_retry(at.now() + seconds(wait)));
        at.control.device_back(at.now() + seconds(wait));
        EXPECT_EQ(at.directive().level, LoadLevel::kFull);
        EXPECT_FALSE(at.control.may_retry(at.now() + minutes(9)));
        at.run(seconds(wait + 1), taken(0));
    }
    // Once it has held for a minute, the first wait is a second again.
    at.run(seconds(61), taken(0));
    at.control.device_lost(at.now());
    EXPECT_TRUE(at.control.may_retry(at.now() + seconds(1)));
}

TEST(LoadControl, FreesTheMemoryOfNobodysWork) {
    Control at;
    at.run(seconds(1), taken(0));
    at.control.holds(6 * kGib);
    EXPECT_EQ(at.control.directive(at.now() + minutes(4)).budget_bytes, 6 * kGib);
    EXPECT_EQ(at.control.directive(at.now() + minutes(5)).budget_bytes, 0U);
    at.control.working(at.now() + minutes(6));
    EXPECT_EQ(at.control.directive(at.now() + minutes(6)).budget_bytes, 6 * kGib);
    // Others' first wish while nothing runs frees all of it, and not only what they take.
    LoadSample sample = taken(2 * kGib);
    const Nanoseconds later = at.now() + minutes(6) + seconds(3);
    sample.time = later;
    at.control.observe(later, sample);
    EXPECT_EQ(at.control.directive(later).budget_bytes, 0U);
    at.control.working(later);
    EXPECT_EQ(at.control.directive(later).budget_bytes, 5 * kGib);
}

TEST(LoadControl, TakesNothingFromTheFuture) {
    Control at;
    at.run(seconds(1), taken(0));
    LoadSample sample = taken(8 * kGib);
    sample.time = at.now() + seconds(1000);
    at.control.observe(at.now(), sample);
    EXPECT_EQ(at.directive().level, LoadLevel::kFull);
    at.run(milliseconds(10), taken(4 * kGib));
    EXPECT_EQ(at.directive().budget_bytes, 3 * kGib) << "later samples still count";
}

TEST(LoadControl, NamesItsLevels) {
    EXPECT_EQ(std::string_view(load_level_name(LoadLevel::kFull)), "full");
    EXPECT_EQ(std::string_view(load_level_name(LoadLevel::kPolite)), "polite");
    EXPECT_EQ(std::string_view(load_level_name(LoadLevel::kMinimal)), "minimal");
    EXPECT_EQ(std::string_view(load_level_name(LoadLevel::kPaused)), "paused");
    EXPECT_EQ(std::string_view(load_level_name(LoadLevel::kDegraded)), "degraded");
}

}  // namespace
}  // namespace ballast::scheduler
