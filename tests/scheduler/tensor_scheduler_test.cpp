// SPDX-License-Identifier: MIT
// The control loop on models of a few round numbers, so that times can be worked out by hand.
#include "scheduler/tensor_scheduler.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"
#include "tests/engine/runtime/manual_clock.h"

namespace ballast::scheduler {
namespace {

using std::chrono_literals::operator""ms;
using test::SteppingClock;

constexpr std::uint64_t kGb = 1'000'000'000;

/// 1 GB of attention with 1 MB of keys and values a token, 3 GB of feed-forward, 1 GB of head. So
/// little arithmetic that bytes alone count.
TensorCatalog small_catalog() {
    return {.name = "small",
            .width = 64,
            .n_layers = 1,
            .context_length = 4000,
            .groups = {{.kind = GroupKind::kAttention,
                        .layer = 0,
                        .parts = 4,
                        .weight_bytes = kGb,
                        .weights = 1000,
                        .kv_bytes_per_token = 1'000'000},
                       {.kind = GroupKind::kFeedForward,
                        .layer = 0,
                        .parts = 16,
                        .weight_bytes = 3 * kGb,
                        .weights = 1000},
                       {.kind = GroupKind::kHead,
                        .layer = -1,
                        .parts = 8,
                        .weight_bytes = kGb,
                        .weights = 1000}}};
}

HardwareProfile cpu_hardware() {
    return {.name = "cpu",
            .has_device = false,
            .cpu_read_gbps = 10,
            .dram_gbps = 12,
            .cpu_tflops = 100,
            .ram_gb = 64};
}

HardwareProfile device_hardware() {
    return {.name = "both",
            .device_read_gbps = 100,
            .cpu_read_gbps = 10,
            .link_gbps = 10,
            .dram_gbps = 12,
            .device_memory_gb = 16,
            .hop_us = 50,
            .device_tflops = 1000,
            .cpu_tflops = 100,
            .ram_gb = 64};
}

SchedulerSetup small_setup(std::optional<HardwareProfile> hardware, double device_bytes = 0.0) {
    return {.catalog = small_catalog(),
            .hardware = std::move(hardware),
            .device_bytes = device_bytes,
            .reserve = {.tokens = 4000},
            .context = 4000,
            .ladder = {.splits = false, .streams = false, .prefill_streams = false}};
}

/// Each group of small_catalog() as a run of the CPU, this many times as long as 10 GB/s take at
/// depth 0.
std::vector<GroupTime> group_times(double attention, double feed_forward, double head) {
    return {{.first_group = 0, .seconds = 0.1 * attention},
            {.first_group = 1, .seconds = 0.3 * feed_forward},
            {.first_group = 2, .seconds = 0.1 * head}};
}

int n_on_device(const Placement& placement) {
    int n = 0;
    for (const GroupPlacement& placed : placement.groups) {
        n += placed.resident > 0 || placed.shared_on_device ? 1 : 0;
    }
    return n;
}

/// What an executor of whole groups can follow.
void expect_whole_groups(const TensorCatalog& catalog, const Placement& placement) {
    ASSERT_EQ(placement.groups.size(), catalog.groups.size());
    for (std::size_t i = 0; i < placement.groups.size(); ++i) {
        const GroupPlacement& placed = placement.groups[i];
        EXPECT_TRUE(placed.resident == 0 || placed.resident == catalog.groups[i].parts) << i;
        EXPECT_EQ(placed.streamed, 0) << i;
        EXPECT_EQ(placed.prefill_streamed, 0) << i;
        if (catalog.groups[i].kind == GroupKind::kExperts) {
            EXPECT_EQ(placed.shared_on_device, placed.resident > 0) << i;
        }
    }
}

TEST(TensorScheduler, WithoutAMeasuredMachineUsesTheCpuAndPromisesNothing) {
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(small_setup({}, 4e9), clock);
    const SchedulerState state = scheduler.state();
    ASSERT_NE(state.plan, nullptr);
    EXPECT_EQ(state.plan, scheduler.plan());
    EXPECT_EQ(state.plan->version, 1U);
    EXPECT_EQ(state.plan->placement, cpu_only(small_catalog()));
    EXPECT_EQ(state.plan->forecast.decode_seconds, 0.0);
    EXPECT_EQ(state.plan->forecast.limit_fraction(), 0.0);
    EXPECT_FALSE(state.has_hardware);
    EXPECT_EQ(state.plan->reason, "everything on the CPU: this machine has not been measured yet");
    // Nothing to compare with, so nothing is learnt.
    scheduler.observe_decode(0, 1.0, group_times(1, 1, 1));
    EXPECT_EQ(scheduler.state().measured_seconds, 0.0);
    EXPECT_EQ(scheduler.state().limit_fraction, 0.0);
}

TEST(TensorScheduler, WithoutADeviceForecastsTheCpuByItsRates) {
    const SteppingClock clock(1ms);
    // Memory that is given to a device which is not there changes nothing.
    const TensorScheduler scheduler(small_setup(cpu_hardware(), 4e9), clock);
    const SchedulerState state = scheduler.state();
    EXPECT_TRUE(state.has_hardware);
    EXPECT_EQ(state.plan->placement, cpu_only(small_catalog()));
    EXPECT_EQ(state.plan->reason, "everything on the CPU: there is no device");
    const Forecast& forecast = state.plan->forecast;
    EXPECT_EQ(forecast.depth, 2000);
    EXPECT_EQ(forecast.prefill_tokens, 512);
    // 5 GB of weights and 2 GB of keys and values at 10 GB/s, and no plan could do better.
    EXPECT_NEAR(forecast.decode_seconds, 0.7, 1e-9);
    EXPECT_NEAR(forecast.decode_bound_seconds, 0.7, 1e-9);
    EXPECT_NEAR(forecast.limit_fraction(), 1.0, 1e-9);
    EXPECT_EQ(forecast.gap, 0.0);
    // A prompt reads the weights once, and keys and values of half of it.
    EXPECT_NEAR(forecast.prefill_seconds, 0.5256, 1e-9);
}

TEST(TensorScheduler, OnADeviceWithoutRoomUsesTheCpu) {
    const SteppingClock clock(1ms);
    const TensorScheduler scheduler(small_setup(device_hardware(), 0.0), clock);
    EXPECT_EQ(scheduler.plan()->placement, cpu_only(small_catalog()));
    EXPECT_NEAR(scheduler.plan()->forecast.decode_seconds, 0.7, 1e-9);
}

TEST(TensorScheduler, PlacesWholeGroupsOnADeviceAsFarAsTheyFit) {
    const SteppingClock clock(1ms);
    const TensorCatalog catalog = small_catalog();
    struct Row {
        double bytes;
        int groups;
        double seconds;  // of a token at depth 2000, without hops
    };
    // 0.9 GB hold no group; 3 GB the feed-forward; 4 GB the head with it; 9 GB all, with 4 GB of
    // keys and values.
    for (const Row& row :
         {Row{0.9e9, 0, 0.7}, Row{3e9, 1, 0.43}, Row{4e9, 2, 0.34}, Row{9e9, 3, 0.07}}) {
        const TensorScheduler scheduler(small_setup(device_hardware(), row.bytes), clock);
        const auto plan = scheduler.plan();
        expect_whole_groups(catalog, plan->placement);
        EXPECT_EQ(n_on_device(plan->placement), row.groups) << row.bytes;
        EXPECT_LE(
            static_cast<double>(device_bytes(catalog, plan->placement, {.tokens = 4000}).total()),
            row.bytes);
        EXPECT_NEAR(plan->forecast.decode_seconds, row.seconds, 0.002) << row.bytes;
        EXPECT_GE(plan->forecast.decode_seconds, plan->forecast.decode_bound_seconds);
        EXPECT_GE(plan->forecast.gap, 0.0);
        EXPECT_TRUE(plan->reason.starts_with(std::to_string(row.groups) + " of 3 groups on the "
                                                                          "device, "))
            << plan->reason;
        EXPECT_TRUE(plan->reason.ends_with("where the CPU alone would take 700.0")) << plan->reason;
    }
}

TEST(TensorScheduler, PlacesWholeGroupsOfRealModels) {
    const SteppingClock clock(1ms);
    for (const char* model : {"llama-3.1-8b", "gpt-oss-20b", "qwen3-14b"}) {
        const TensorCatalog catalog = *catalog_of(*stored_model(model), "");
        const HardwareProfile hardware = *stored_hardware("laptop-4060");
        const double budget = 0.5 * static_cast<double>(catalog.total_bytes());
        const KvReserve reserve = {.tokens = 4096};
        const TensorScheduler scheduler(
            {.catalog = catalog,
             .hardware = hardware,
             .device_bytes = budget,
             .reserve = reserve,
             .context = 4096,
             .ladder = {.splits = false, .streams = false, .prefill_streams = false}},
            clock);
        const auto plan = scheduler.plan();
        expect_whole_groups(catalog, plan->placement);
        EXPECT_LE(static_cast<double>(device_bytes(catalog, plan->placement, reserve).total()),
                  budget)
            << model;
        const TensorScheduler alone(
            {.catalog = catalog, .hardware = hardware, .reserve = reserve, .context = 4096}, clock);
        EXPECT_LT(plan->forecast.decode_seconds, 0.9 * alone.plan()->forecast.decode_seconds)
            << model;
    }
}

TEST(TensorScheduler, NumbersItsDecisionsAndGivesCauseAndReason) {
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(small_setup(device_hardware(), 3e9), clock);
    scheduler.set_hardware(device_hardware());
    const SchedulerState state = scheduler.state();
    ASSERT_EQ(state.decisions.size(), 2U);
    EXPECT_EQ(state.decisions[0].number, 1U);
    EXPECT_EQ(state.decisions[0].cause, "start");
    EXPECT_EQ(state.decisions[0].unix_seconds, clock.unix_seconds());
    EXPECT_TRUE(state.decisions[0].text.starts_with("Plan 1: 1 of 3 groups on the device, "))
        << state.decisions[0].text;
    EXPECT_EQ(state.decisions[1].number, 2U);
    EXPECT_EQ(state.decisions[1].cause, "profile");
    EXPECT_EQ(state.decisions[1].text,
              "Plan 2: the same placement, forecast from this machine's measured profile.");
}

TEST(TensorScheduler, KeepsTheLatestDecisionsOnly) {
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(small_setup(cpu_hardware()), clock);
    constexpr std::uint64_t kTimes = 300;
    for (std::uint64_t i = 0; i < kTimes; ++i) {
        scheduler.set_hardware(cpu_hardware());
    }
    const SchedulerState state = scheduler.state();
    ASSERT_EQ(state.decisions.size(), 256U);
    for (std::size_t i = 0; i < state.decisions.size(); ++i) {
        EXPECT_EQ(state.decisions[i].number, kTimes + 1 - 255 + i);
    }
    EXPECT_EQ(state.plan->version, kTimes + 1);
    const std::map<std::string, std::uint64_t> replans = {{"profile", kTimes}, {"start", 1}};
    EXPECT_EQ(state.replans, replans);
}

TEST(TensorScheduler, AMeasuredMachineChangesTheForecastAndNotThePlacement) {
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(small_setup(device_hardware(), 3e9), clock);
    const auto first = scheduler.plan();
    // A CPU that would be worth more than the device: another planner would move everything.
    HardwareProfile other = device_hardware();
    other.cpu_read_gbps = 200;
    other.dram_gbps = 240;
    scheduler.set_hardware(other);
    const auto second = scheduler.plan();
    EXPECT_EQ(first->version, 1U);  // a plan that is out does not change
    EXPECT_EQ(second->version, 2U);
    EXPECT_EQ(second->placement, first->placement);
    // 3 GB at 100 GB/s and 4 at 200, and two hops.
    EXPECT_NEAR(second->forecast.decode_seconds, 0.05, 0.0005);

    TensorScheduler unmeasured(small_setup({}), clock);
    unmeasured.set_hardware(cpu_hardware());
    const SchedulerState state = unmeasured.state();
    EXPECT_TRUE(state.has_hardware);
    EXPECT_EQ(state.plan->version, 2U);
    EXPECT_EQ(state.plan->placement, cpu_only(small_catalog()));
    EXPECT_NEAR(state.plan->forecast.decode_seconds, 0.7, 1e-9);
    unmeasured.observe_decode(0, 1.0, group_times(2, 2, 2));
    EXPECT_NEAR(unmeasured.state().limit_fraction, 0.5, 1e-9);
}

TEST(TensorScheduler, ForgetsWhatItLearntWhenTheMachineIsMeasured) {
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(small_setup(cpu_hardware()), clock);
    for (int i = 0; i < 200; ++i) {
        scheduler.observe_decode(0, 1.0, group_times(2, 2, 2));
    }
    EXPECT_NEAR(scheduler.state().plan_fraction, 1.0, 0.001);
    scheduler.set_hardware(cpu_hardware());
    EXPECT_NEAR(scheduler.plan()->forecast.decode_seconds, 0.7, 1e-9);
    for (int i = 0; i < 60; ++i) {
        scheduler.observe_decode(0, 0.5, {});
    }
    EXPECT_NEAR(scheduler.state().predicted_seconds, 0.5, 0.001);
}

TEST(TensorScheduler, CorrectsItsForecastByMeasuredTimes) {
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(small_setup(cpu_hardware()), clock);
    scheduler.observe_decode(0, 1.0, group_times(2, 2, 2));
    SchedulerState state = scheduler.state();
    EXPECT_NEAR(state.measured_seconds, 1.0, 1e-9);
    EXPECT_NEAR(state.predicted_seconds, 0.5, 1e-9);
    EXPECT_NEAR(state.plan_fraction, 0.5, 1e-9);
    EXPECT_NEAR(state.limit_fraction, 0.5, 1e-9);
    for (int i = 0; i < 200; ++i) {
        scheduler.observe_decode(0, 1.0, group_times(2, 2, 2));
    }
    state = scheduler.state();
    EXPECT_NEAR(state.measured_seconds, 1.0, 1e-9);
    EXPECT_NEAR(state.predicted_seconds, 1.0, 0.001);
    EXPECT_NEAR(state.plan_fraction, 1.0, 0.001);
    // The bound is physics: it does not move because the machine was slow.
    EXPECT_NEAR(state.limit_fraction, 0.5, 1e-9);
}

TEST(TensorScheduler, LearnsOfEachSideAndClassByItself) {
    const SteppingClock clock(1ms);
    // The feed-forward is the device's: 0.03 s there, 0.2 s of the CPU.
    TensorScheduler scheduler(small_setup(device_hardware(), 3e9), clock);
    std::vector<GroupTime> times = group_times(1, 1, 1);
    times[1].side = Side::kDevice;
    times[1].seconds = 0.12;  // four times as long
    times[2].seconds = 0.3;   // the head's three times
    for (int i = 0; i < 200; ++i) {
        scheduler.observe_decode(0, 0.52, times);
    }
    EXPECT_NEAR(scheduler.state().predicted_seconds, 0.1 + 0.12 + 0.3, 0.002);
}

TEST(TensorScheduler, LearnsOfRunsOfSeveralGroups) {
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(small_setup(cpu_hardware()), clock);
    const std::vector<GroupTime> run = {{.first_group = 0, .n_groups = 3, .seconds = 1.5}};
    for (int i = 0; i < 200; ++i) {
        scheduler.observe_decode(0, 1.5, run);
    }
    EXPECT_NEAR(scheduler.state().plan_fraction, 1.0, 0.001);
    EXPECT_NEAR(scheduler.state().predicted_seconds, 1.5, 0.002);
}

TEST(TensorScheduler, LooksAtAllOfManyRunsInTurn) {
    SchedulerSetup setup = small_setup(cpu_hardware());
    TensorCatalog& catalog = setup.catalog;
    const TensorGroup head = catalog.groups.back();
    catalog.groups.clear();
    constexpr int kLayers = 1000;
    for (int layer = 0; layer < kLayers; ++layer) {
        catalog.groups.push_back({.kind = GroupKind::kFeedForward,
                                  .layer = layer,
                                  .weight_bytes = 1'000'000,
                                  .weights = 1000});
    }
    catalog.groups.push_back(head);
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(std::move(setup), clock);
    std::vector<GroupTime> times;
    for (int group = 0; group < kLayers; ++group) {
        times.push_back({.first_group = group, .seconds = 1e-4});
    }
    times.push_back({.first_group = kLayers, .seconds = 0.3});  // three times as long
    for (int i = 0; i < 600; ++i) {
        scheduler.observe_decode(0, 0.4, times);
    }
    EXPECT_NEAR(scheduler.state().predicted_seconds, 0.4, 0.001);
}

TEST(TensorScheduler, LearnsOfARunOfVeryManyGroups) {
    SchedulerSetup setup = small_setup(cpu_hardware());
    constexpr int kLayers = 9000;
    setup.catalog.groups.assign(
        kLayers,
        {.kind = GroupKind::kFeedForward, .layer = 0, .weight_bytes = 1'000'000, .weights = 1000});
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(std::move(setup), clock);
    const std::vector<GroupTime> run = {{.first_group = 0, .n_groups = kLayers, .seconds = 1.8}};
    for (int i = 0; i < 400; ++i) {
        scheduler.observe_decode(0, 1.8, run);
    }
    EXPECT_NEAR(scheduler.state().predicted_seconds, 1.8, 0.002);
}

TEST(TensorScheduler, ComparesAtTheDepthOfTheStep) {
    const SteppingClock clock(1ms);
    struct Row {
        int depth;
        double seconds;  // 5 GB and 1 MB a token at 10 GB/s
    };
    for (const Row& row :
         {Row{0, 0.5}, Row{500, 0.55}, Row{1000, 0.6}, Row{3999, 0.8999}, Row{4000, 0.9}}) {
        TensorScheduler scheduler(small_setup(cpu_hardware()), clock);
        scheduler.observe_decode(row.depth, 2 * row.seconds, {});
        const SchedulerState state = scheduler.state();
        EXPECT_NEAR(state.predicted_seconds, row.seconds, 1e-9) << row.depth;
        EXPECT_NEAR(state.limit_fraction, 0.5, 1e-9) << row.depth;
        EXPECT_NEAR(state.plan_fraction, 0.5, 1e-9) << row.depth;
    }
}

TEST(TensorScheduler, TheLimitIsThatOfTheWholeHardware) {
    const SteppingClock clock(1ms);
    // 3 of 5 GB in device memory; the other two leave RAM at 12 GB/s, 10 of them to the CPU and 2
    // over the link: 1/6 s. Whole groups take 0.03 + 0.2 s and hops.
    TensorScheduler scheduler(small_setup(device_hardware(), 3e9), clock);
    scheduler.observe_decode(0, 0.5, {});
    const SchedulerState state = scheduler.state();
    EXPECT_NEAR(state.limit_fraction, (1.0 / 6.0) / 0.5, 1e-6);
    EXPECT_NEAR(state.plan_fraction, 0.23 / 0.5, 0.001);
    EXPECT_GT(state.plan_fraction, 0.23 / 0.5);
}

TEST(TensorScheduler, IgnoresTimesThatCannotBe) {
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(small_setup(cpu_hardware()), clock);
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (const double seconds : {0.0, -1.0, kNan, kInfinity}) {
        scheduler.observe_decode(0, seconds, group_times(2, 2, 2));
        EXPECT_EQ(scheduler.state().measured_seconds, 0.0) << seconds;
        EXPECT_EQ(scheduler.state().limit_fraction, 0.0) << seconds;
    }
    // Of a step that took time, runs that did not: nothing is learnt of them.
    for (int i = 0; i < 200; ++i) {
        scheduler.observe_decode(0, 0.5, {});
        scheduler.observe_decode(0, 0.5, group_times(0, -1, kNan));
        scheduler.observe_decode(0, 0.5, group_times(kInfinity, 0, 0));
        const std::vector<GroupTime> outside = {{.first_group = -1, .seconds = 9.0},
                                                {.first_group = 1, .n_groups = 0, .seconds = 9.0}};
        scheduler.observe_decode(0, 0.5, outside);
    }
    const SchedulerState state = scheduler.state();
    EXPECT_NEAR(state.measured_seconds, 0.5, 1e-9);
    EXPECT_NEAR(state.predicted_seconds, 0.5, 1e-9);
    EXPECT_NEAR(state.plan_fraction, 1.0, 1e-9);
}

TEST(TensorScheduler, CountsItsOwnTime) {
    // A clock that moves by 1 ms whenever it is asked: each entry asks twice.
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(small_setup(cpu_hardware()), clock);
    EXPECT_NEAR(scheduler.state().scheduler_seconds, 0.001, 1e-9);
    scheduler.observe_decode(0, 1.0, group_times(1, 1, 1));
    EXPECT_NEAR(scheduler.state().scheduler_seconds, 0.002, 1e-9);
    scheduler.set_hardware(cpu_hardware());
    EXPECT_NEAR(scheduler.state().scheduler_seconds, 0.003, 1e-9);
    static_cast<void>(scheduler.plan());
    EXPECT_NEAR(scheduler.state().scheduler_seconds, 0.003, 1e-9);
}

TEST(TensorScheduler, AnyThreadMayAskWhileItLearnsAndDecides) {
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(small_setup(device_hardware(), 3e9), clock);
    std::atomic<bool> done{false};
    std::atomic<int> n_asked{0};
    std::thread asking([&] {
        std::uint64_t version = 0;
        double seconds = 0.0;
        while (!done.load()) {
            const SchedulerState state = scheduler.state();
            EXPECT_GE(state.plan->version, version);
            EXPECT_GE(scheduler.plan()->version, state.plan->version);
            EXPECT_GE(state.scheduler_seconds, seconds);
            for (std::size_t i = 1; i < state.decisions.size(); ++i) {
                EXPECT_EQ(state.decisions[i].number, state.decisions[i - 1].number + 1);
            }
            version = state.plan->version;
            seconds = state.scheduler_seconds;
            n_asked.fetch_add(1);
        }
    });
    for (int i = 0; i < 500 || n_asked.load() < 20; ++i) {
        scheduler.observe_decode(i % 4000, 0.5, group_times(1, 1, 1));
        if (i % 50 == 0) {
            scheduler.set_hardware(device_hardware());
        }
    }
    done.store(true);
    asking.join();
    EXPECT_GE(scheduler.plan()->version, 11U);
}

TEST(TensorScheduler, PlansByTheProfileForADeviceThatOnlyPlaysOne) {
    const SteppingClock clock(1ms);
    for (const bool by_profile : {false, true}) {
        SchedulerSetup setup = small_setup(device_hardware(), 10e9);
        setup.plans_by_profile = by_profile;
        TensorScheduler scheduler(std::move(setup), clock);
        const Plan before = scheduler.plan_for(10e9);
        const std::vector<GroupTime> slow = {
            {.first_group = 0, .n_groups = 3, .side = Side::kDevice, .seconds = 100.0}};
        for (int i = 0; i < 500; ++i) {
            scheduler.observe_decode(0, 100.0, slow);
        }
        EXPECT_EQ(scheduler.plan_for(10e9).placement == before.placement, by_profile);
    }
}

TEST(TensorScheduler, PlansForAnotherShareAndSaysWhatChangedIt) {
    const SteppingClock clock(1ms);
    TensorScheduler scheduler(small_setup(device_hardware(), 10e9), clock);
    const auto n_on_device = [](const Plan& plan) {
        int n = 0;
        for (const GroupPlacement& placed : plan.placement.groups) {
            n += placed.resident > 0 ? 1 : 0;
        }
        return n;
    };
    EXPECT_EQ(n_on_device(*scheduler.plan()), 3);
    const Plan none = scheduler.plan_for(0.0);
    EXPECT_EQ(n_on_device(none), 0);
    EXPECT_EQ(none.forecast.decode_seconds, none.forecast.cpu_decode_seconds);
    EXPECT_EQ(scheduler.plan()->version, 1U) << "asking changes nothing";
    scheduler.adopt(none, 0.0, "memory", "A game came.");
    EXPECT_EQ(scheduler.plan()->version, 2U);
    EXPECT_EQ(n_on_device(*scheduler.plan()), 0);
    const Plan some = scheduler.plan_for(3.5e9);
    EXPECT_GT(n_on_device(some), 0);
    EXPECT_LT(n_on_device(some), 3);
    EXPECT_LT(some.forecast.decode_seconds, some.forecast.cpu_decode_seconds);
    scheduler.adopt(some, 3.5e9, "room", "It left.");
    const SchedulerState state = scheduler.state();
    ASSERT_EQ(state.decisions.size(), 3U);
    EXPECT_EQ(state.decisions[1].cause, "memory");
    EXPECT_EQ(state.decisions[1].text,
              "A game came. Plan 2: everything on the CPU: nothing of the device may be used.");
    EXPECT_TRUE(state.decisions[2].text.starts_with("It left. Plan 3: "));
    EXPECT_EQ(state.replans.at("room"), 1U);
}

}  // namespace
}  // namespace ballast::scheduler
