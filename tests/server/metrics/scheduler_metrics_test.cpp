// SPDX-License-Identifier: MIT
#include "server/metrics/scheduler_metrics.h"

#include <atomic>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

namespace ballast::metrics {
namespace {

/// A scheduler's state that the test changes, and how often it was asked for.
struct FakeScheduler {
    SystemClock clock;
    Registry registry{clock};
    SchedulerMetrics metrics{registry};
    scheduler::SchedulerState state;
    runtime::LoadReport load;
    std::vector<runtime::PlacedBytes> places;
    std::atomic<int> n_asked{0};

    FakeScheduler() { set_version(1); }

    void set_version(std::uint64_t version) {
        auto plan = std::make_shared<scheduler::Plan>();
        plan->version = version;
        plan->forecast = {.decode_seconds = 0.5, .decode_bound_seconds = 0.25, .gap = 0.125};
        state.plan = std::move(plan);
    }

    void start(std::vector<runtime::PlacedBytes> placed = {}) {
        places = std::move(placed);
        metrics.start({.placed = [this] { return places; },
                       .state =
                           [this] {
                               n_asked.fetch_add(1);
                               return state;
                           },
                       .load = [this] { return load; }});
    }

    /// Value of a series by its exact text; nothing if it is not there.
    std::optional<double> value(const std::string& series) {
        std::istringstream lines(registry.scrape());
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with(series + " ")) {
                return std::stod(line.substr(series.size() + 1));
            }
        }
        return {};
    }

    bool has_any(const std::string& family) {
        std::istringstream lines(registry.scrape());
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with(family + " ") || line.starts_with(family + "{")) {
                return true;
            }
        }
        return false;
    }
};

const char* const kPlan = "ballast_plan_version";
const char* const kPredicted = "ballast_plan_predicted_seconds";
const char* const kGap = "ballast_plan_gap_ratio";
const char* const kLimit = "ballast_limit_fraction";
const char* const kFraction = "ballast_plan_fraction";
const char* const kSeconds = "ballast_scheduler_seconds_total";

TEST(SchedulerMetrics, NothingIsThereBeforeAModelIs) {
    FakeScheduler fake;
    for (const char* family : {"ballast_placement_bytes",
                               kPlan,
                               kPredicted,
                               kGap,
                               kLimit,
                               kFraction,
                               "ballast_replans_total"}) {
        EXPECT_FALSE(fake.has_any(family)) << family;
    }
    EXPECT_EQ(fake.value(kSeconds), 0.0);
}

TEST(SchedulerMetrics, FamiliesAppearWithTheirFirstValue) {
    FakeScheduler fake;
    fake.start();
    EXPECT_EQ(fake.value(kPlan), 1.0);
    for (const char* family : {kPredicted, kGap, kLimit, kFraction}) {
        EXPECT_FALSE(fake.has_any(family)) << family;
    }
    fake.state.has_hardware = true;
    fake.set_version(2);
    EXPECT_EQ(fake.value(kPlan), 2.0);
    EXPECT_EQ(fake.value(kPredicted), 0.5);
    EXPECT_EQ(fake.value(kGap), 0.125);
    EXPECT_FALSE(fake.has_any(kLimit));
    EXPECT_FALSE(fake.has_any(kFraction));
    fake.state.limit_fraction = 0.25;
    fake.state.plan_fraction = 0.75;
    EXPECT_EQ(fake.value(kLimit), 0.25);
    EXPECT_EQ(fake.value(kFraction), 0.75);
    fake.state.limit_fraction = 0.375;
    EXPECT_EQ(fake.value(kLimit), 0.375);
}

TEST(SchedulerMetrics, BytesAreByDeviceAndClass) {
    FakeScheduler fake;
    fake.start({{.device = "cpu", .tensor_class = "embedding", .bytes = 500},
                {.device = "device", .tensor_class = "attention", .bytes = 12'345'678'901}});
    EXPECT_EQ(fake.value(R"(ballast_placement_bytes{class="embedding",device="cpu"})"), 500.0);
    EXPECT_EQ(fake.value(R"(ballast_placement_bytes{class="attention",device="device"})"),
              12'345'678'901.0);
}

TEST(SchedulerMetrics, WhatHasLeftADeviceIsNothingThere) {
    FakeScheduler fake;
    fake.start({{.device = "device", .tensor_class = "attention", .bytes = 12}});
    const std::string series = R"(ballast_placement_bytes{class="attention",device="device"})";
    EXPECT_EQ(fake.value(series), 12.0);
    fake.places = {{.device = "cpu", .tensor_class = "attention", .bytes = 11}};
    EXPECT_EQ(fake.value(series), 0.0);
    EXPECT_EQ(fake.value(R"(ballast_placement_bytes{class="attention",device="cpu"})"), 11.0);
}

TEST(LoadMetrics, SayWhoHasTheMemoryAndWhatWasGivenBack) {
    FakeScheduler fake;
    fake.start();
    EXPECT_EQ(fake.value(R"(ballast_pressure_level{level="full"})"), 1.0);
    EXPECT_FALSE(fake.has_any("ballast_gpu_memory_bytes")) << "there is no device";
    fake.load = {.level = scheduler::LoadLevel::kPolite,
                 .has_device = true,
                 .self_bytes = 100,
                 .others_bytes = 300,
                 .total_bytes = 1000,
                 .contention = 0.25,
                 .degraded = runtime::LoadCause::kFailedSubmission,
                 .n_moves = 3};
    fake.load.evicted_bytes[static_cast<std::size_t>(runtime::LoadCause::kMemory)] = 50;
    EXPECT_EQ(fake.value(R"(ballast_pressure_level{level="full"})"), 0.0);
    EXPECT_EQ(fake.value(R"(ballast_pressure_level{level="polite"})"), 1.0);
    EXPECT_EQ(fake.value(R"(ballast_gpu_memory_bytes{owner="self"})"), 100.0);
    EXPECT_EQ(fake.value(R"(ballast_gpu_memory_bytes{owner="others"})"), 300.0);
    EXPECT_EQ(fake.value(R"(ballast_gpu_memory_bytes{owner="free"})"), 600.0);
    EXPECT_EQ(fake.value("ballast_gpu_contention_ratio"), 0.25);
    EXPECT_EQ(fake.value(R"(ballast_degraded{reason="failed_submission"})"), 1.0);
    EXPECT_EQ(fake.value(R"(ballast_degraded{reason="device_lost"})"), 0.0);
    EXPECT_EQ(fake.value(R"(ballast_evicted_bytes_total{cause="memory"})"), 50.0);
    EXPECT_EQ(fake.value(R"(ballast_evicted_bytes_total{cause="idle"})"), 0.0);
    EXPECT_EQ(fake.value("ballast_moves_total"), 3.0);
    fake.load.evicted_bytes[static_cast<std::size_t>(runtime::LoadCause::kMemory)] = 80;
    EXPECT_EQ(fake.value(R"(ballast_evicted_bytes_total{cause="memory"})"), 80.0);
}

TEST(ExpertMetrics, SayHowUnevenlyExpertsAreUsedAndWhatTheDeviceHad) {
    FakeScheduler fake;
    fake.start();
    EXPECT_FALSE(fake.has_any("ballast_expert_share")) << "the model has no experts";
    EXPECT_FALSE(fake.has_any("ballast_expert_hits_total"));
    fake.load.experts = {
        .has_experts = true,
        .summary = {.hottest_10 = 0.25, .hottest_25 = 0.5, .hottest_50 = 0.75, .hit_rate = 0.375},
        .hits = 30,
        .misses = 50,
        .n_moves = 4,
        .moved_bytes = 4000};
    EXPECT_EQ(fake.value(R"(ballast_expert_share{hottest="10"})"), 0.25);
    EXPECT_EQ(fake.value(R"(ballast_expert_share{hottest="25"})"), 0.5);
    EXPECT_EQ(fake.value(R"(ballast_expert_share{hottest="50"})"), 0.75);
    EXPECT_EQ(fake.value("ballast_expert_hit_ratio"), 0.375);
    EXPECT_EQ(fake.value("ballast_expert_hits_total"), 30.0);
    EXPECT_EQ(fake.value("ballast_expert_misses_total"), 50.0);
    EXPECT_EQ(fake.value("ballast_expert_moves_total"), 4.0);
    EXPECT_EQ(fake.value("ballast_expert_moved_bytes_total"), 4000.0);
    fake.load.experts.hits = 31;
    EXPECT_EQ(fake.value("ballast_expert_hits_total"), 31.0);
}

TEST(LoadMetrics, CountWhatCrossesByDirectionAndReason) {
    FakeScheduler fake;
    fake.start();
    EXPECT_FALSE(fake.has_any("ballast_transfer_bytes_total")) << "there is no device";
    fake.load.has_device = true;
    runtime::TransferStats& transfers = fake.load.transfers;
    transfers.count(runtime::TransferDirection::kIn, runtime::TransferReason::kDecodeWeights, 700);
    transfers.count(runtime::TransferDirection::kOut, runtime::TransferReason::kActivations, 30);
    transfers.stalled = std::chrono::milliseconds(250);
    transfers.copied = std::chrono::milliseconds(800);
    transfers.overlapped = std::chrono::milliseconds(600);
    const std::string weights =
        R"(ballast_transfer_bytes_total{direction="in",reason="decode_weights"})";
    EXPECT_EQ(fake.value(weights), 700.0);
    EXPECT_EQ(fake.value(R"(ballast_transfer_bytes_total{direction="out",reason="activations"})"),
              30.0);
    EXPECT_EQ(fake.value(R"(ballast_transfer_bytes_total{direction="in",reason="activations"})"),
              0.0);
    EXPECT_EQ(fake.value("ballast_transfer_stall_seconds_total"), 0.25);
    EXPECT_DOUBLE_EQ(fake.value("ballast_transfer_overlap_ratio").value_or(0.0), 0.75);
    transfers.count(runtime::TransferDirection::kIn, runtime::TransferReason::kDecodeWeights, 1);
    EXPECT_EQ(fake.value(weights), 701.0);
}

TEST(SchedulerMetrics, ReplansAreCountedByCause) {
    FakeScheduler fake;
    fake.start();
    fake.state.replans = {{"start", 1}};
    EXPECT_EQ(fake.value(R"(ballast_replans_total{cause="start"})"), 1.0);
    EXPECT_FALSE(fake.value(R"(ballast_replans_total{cause="profile"})"));
    fake.state.replans = {{"start", 1}, {"profile", 2}};
    EXPECT_EQ(fake.value(R"(ballast_replans_total{cause="profile"})"), 2.0);
    fake.state.replans["profile"] = 5;
    EXPECT_EQ(fake.value(R"(ballast_replans_total{cause="profile"})"), 5.0);
    // A scrape is not a replan.
    EXPECT_EQ(fake.value(R"(ballast_replans_total{cause="profile"})"), 5.0);
    EXPECT_EQ(fake.value(R"(ballast_replans_total{cause="start"})"), 1.0);
}

TEST(SchedulerMetrics, TheSchedulersSecondsOnlyGrow) {
    FakeScheduler fake;
    fake.start();
    fake.state.scheduler_seconds = 0.5;
    EXPECT_EQ(fake.value(kSeconds), 0.5);
    EXPECT_EQ(fake.value(kSeconds), 0.5);
    fake.state.scheduler_seconds = 0.75;
    EXPECT_EQ(fake.value(kSeconds), 0.75);
    // A counter does not go back, whatever a source says.
    fake.state.scheduler_seconds = 0.25;
    EXPECT_EQ(fake.value(kSeconds), 0.75);
}

TEST(SchedulerMetrics, NothingIsAskedAfterStopAndTheLastValuesStay) {
    FakeScheduler fake;
    fake.start();
    fake.state.scheduler_seconds = 0.5;
    fake.state.limit_fraction = 0.25;
    fake.metrics.stop();
    const int n_asked = fake.n_asked.load();
    EXPECT_GE(n_asked, 1);
    fake.state.scheduler_seconds = 9.0;
    EXPECT_EQ(fake.value(kSeconds), 0.5);
    EXPECT_EQ(fake.value(kLimit), 0.25);
    EXPECT_EQ(fake.value(kPlan), 1.0);
    fake.metrics.stop();
    EXPECT_EQ(fake.n_asked.load(), n_asked);
}

TEST(SchedulerMetrics, StopWaitsForAScrapeThatIsAsking) {
    FakeScheduler fake;
    std::atomic<bool> gone{false};
    std::atomic<int> n_late{0};
    std::atomic<int> n_asked{0};
    fake.metrics.start({.placed = [] { return std::vector<runtime::PlacedBytes>(); },
                        .state =
                            [&] {
                                n_late.fetch_add(gone.load() ? 1 : 0);
                                n_asked.fetch_add(1);
                                std::this_thread::yield();
                                n_late.fetch_add(gone.load() ? 1 : 0);
                                return fake.state;
                            },
                        .load = [] { return runtime::LoadReport(); }});
    std::atomic<bool> done{false};
    std::thread scraping([&] {
        while (!done.load()) {
            static_cast<void>(fake.registry.scrape());
        }
    });
    while (n_asked.load() < 20) {
        std::this_thread::yield();
    }
    fake.metrics.stop();
    gone.store(true);
    const int asked = n_asked.load();
    for (int i = 0; i < 20; ++i) {
        static_cast<void>(fake.registry.scrape());
    }
    done.store(true);
    scraping.join();
    EXPECT_EQ(n_late.load(), 0);
    EXPECT_EQ(n_asked.load(), asked);
}

}  // namespace
}  // namespace ballast::metrics
