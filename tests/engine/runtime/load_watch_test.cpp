// SPDX-License-Identifier: MIT
// When the monitor is asked, and what the pauses and samples become.
#include "engine/runtime/load_watch.h"

#include <gtest/gtest.h>

namespace ballast::test {
namespace {

using runtime::LoadCause;
using runtime::LoadWatch;
using scheduler::LoadLevel;
using scheduler::LoadSample;

/// Says the same each time, and counts.
class FixedMonitor final : public scheduler::GpuMonitor {
  public:
    std::optional<LoadSample> sample(Nanoseconds now) override {
        ++n_asked;
        LoadSample given = says;
        given.time = now;
        return given;
    }
    LoadSample says = {.device_total_bytes = 1000};
    int n_asked = 0;
};

LoadWatch::Setup setup_of(FixedMonitor& monitor) {
    LoadWatch::Setup setup = {.monitor = &monitor};
    setup.rules.memory = {.cap_bytes = 1000};
    return setup;
}

TEST(LoadWatch, AsksEachStepAndOnceASecondWithoutWork) {
    FixedMonitor monitor;
    LoadWatch watch(setup_of(monitor));
    Nanoseconds now{0};
    for (int i = 0; i < 100; ++i, now += std::chrono::milliseconds(5)) {
        watch.working(now);
        watch.look(now, 0);
    }
    EXPECT_EQ(monitor.n_asked, 100);
    for (int i = 0; i < 100; ++i, now += std::chrono::milliseconds(100)) {
        watch.look(now, 0);
    }
    EXPECT_NEAR(monitor.n_asked, 110, 1);
    now += std::chrono::minutes(10);
    const int before = monitor.n_asked;
    for (int i = 0; i < 100; ++i, now += std::chrono::milliseconds(500)) {
        watch.look(now, 0);
    }
    EXPECT_NEAR(monitor.n_asked - before, 10, 1) << "every five seconds after ten minutes";
}

TEST(LoadWatch, NamesCauseAndProcess) {
    FixedMonitor monitor;
    scheduler::Pauses pauses;
    LoadWatch::Setup setup = setup_of(monitor);
    setup.pauses = &pauses;
    setup.rules.filter.threshold = 0.0;
    LoadWatch watch(setup);
    Nanoseconds now{0};
    const auto look = [&] {
        now += std::chrono::milliseconds(10);
        watch.working(now);
        return watch.look(now, 800);
    };
    EXPECT_EQ(look().budget_bytes, 1000U);
    EXPECT_EQ(watch.whom(), "others");
    monitor.says.others_bytes = 400;
    monitor.says.process = "game";
    EXPECT_EQ(look().budget_bytes, 600U);
    EXPECT_EQ(watch.cause(), LoadCause::kMemory);
    EXPECT_EQ(watch.whom(), "game");
    monitor.says.others_bytes = 1000;
    EXPECT_EQ(look().level, LoadLevel::kMinimal);
    EXPECT_EQ(watch.cause(), LoadCause::kMemory);
    monitor.says.others_bytes = 0;
    monitor.says.device_busy = 1.0;
    while (look().level != LoadLevel::kMinimal) {
        ASSERT_LT(now, std::chrono::seconds(10));
    }
    EXPECT_EQ(watch.cause(), LoadCause::kBusy);
    pauses.pause();
    EXPECT_EQ(look().level, LoadLevel::kPaused);
    EXPECT_EQ(watch.cause(), LoadCause::kPaused);
    pauses.resume();
    monitor.says.device_busy = 0.0;
    monitor.says.event = scheduler::LoadEvent::kSuspend;
    EXPECT_EQ(look().level, LoadLevel::kPaused);
    EXPECT_EQ(watch.cause(), LoadCause::kSuspended);
    monitor.says.event = scheduler::LoadEvent::kResume;
    look();
    monitor.says.event = scheduler::LoadEvent::kDeviceLost;
    EXPECT_EQ(look().level, LoadLevel::kDegraded);
    EXPECT_EQ(watch.cause(), LoadCause::kLost);
}

TEST(LoadWatch, WithoutAMonitorThereIsQuietAndGrowthIsAllowed) {
    LoadWatch::Setup setup;
    setup.rules.memory = {.cap_bytes = 1000};
    LoadWatch watch(setup);
    watch.working(Nanoseconds{0});
    watch.look(Nanoseconds{0}, 0);
    EXPECT_EQ(watch.control().growth_limit(std::chrono::milliseconds(100)), 0U);
    watch.working(std::chrono::seconds(1));
    watch.look(std::chrono::seconds(1), 0);
    EXPECT_EQ(watch.control().growth_limit(std::chrono::seconds(1)), 1000U);
}

TEST(LoadWatch, WithoutWorkForFiveMinutesTheBudgetIsNothing) {
    FixedMonitor monitor;
    LoadWatch watch(setup_of(monitor));
    watch.working(Nanoseconds{0});
    EXPECT_EQ(watch.look(Nanoseconds{0}, 500).budget_bytes, 1000U);
    EXPECT_EQ(watch.look(std::chrono::seconds(301), 500).budget_bytes, 0U);
    EXPECT_EQ(watch.cause(), LoadCause::kIdle);
}

}  // namespace
}  // namespace ballast::test
