// SPDX-License-Identifier: MIT
// The device is taken away and given back while streams run: not a letter of them changes, none is
// lost, what others leave is kept to, and the device's own count of our bytes is that of our books.
#include "tests/engine/runtime/live_run.h"

namespace ballast::test {
namespace {

constexpr std::uint64_t kBudget = kLiveBudget;

TinyModelOptions small_model() {
    return {.n_layers = 3, .type = quant::QuantType::kQ8_0};
}

TEST(LiveDevice, AGameComesAndGoes) {
    const TinyFixture fixture(small_model());
    LivePlay played;
    played.script =
        first_sample() + sample_line(500, kBudget, ",\"process\":\"game\"") + sample_line(1200, 0);
    const LiveOutcome outcome = play(fixture, played);
    expect_undisturbed(outcome, undisturbed(fixture, played));
    EXPECT_GT(outcome.most_bytes, 0U);
    const auto at = [&](int ms) { return outcome.reports.at(static_cast<std::size_t>(ms / 10)); };
    EXPECT_GT(at(490).self_bytes, 0U);
    EXPECT_EQ(at(540).self_bytes, 0U) << "given back by the step after the sample";
    EXPECT_EQ(at(540).level, scheduler::LoadLevel::kMinimal);
    EXPECT_EQ(at(540).residency->n_on_device(), 0);
    EXPECT_EQ(at(1150).self_bytes, 0U);
    EXPECT_GT(outcome.last.self_bytes, 0U) << "taken again";
    EXPECT_EQ(outcome.last.self_bytes, at(490).self_bytes);
    EXPECT_EQ(outcome.last.n_refused, 0U);
    const auto cause = static_cast<std::size_t>(runtime::LoadCause::kMemory);
    EXPECT_EQ(outcome.last.evicted_bytes[cause], at(490).self_bytes);
    EXPECT_EQ(outcome.last.n_moves, 2U);
    ASSERT_EQ(outcome.decisions.size(), 3U);
    EXPECT_EQ(outcome.decisions[1].cause, "memory");
    EXPECT_NE(outcome.decisions[1].text.find("wanted by game; "), std::string::npos)
        << outcome.decisions[1].text;
    EXPECT_NE(outcome.decisions[1].text.find("keys and values of 3 layers"), std::string::npos)
        << outcome.decisions[1].text;
    EXPECT_EQ(outcome.decisions[2].cause, "room");
}

TEST(LiveDevice, ASmallerShareIsPlannedAnewAndKept) {
    const TinyFixture fixture(small_model());
    const LiveOutcome before = play(fixture, {.n_tokens = 5});
    LivePlay played;
    const std::uint64_t less = before.last.self_bytes * 3 / 4;
    played.script = first_sample() + sample_line(500, kBudget - less);
    const LiveOutcome outcome = play(fixture, played);
    expect_undisturbed(outcome, undisturbed(fixture, played));
    EXPECT_GT(outcome.last.self_bytes, 0U);
    EXPECT_LE(outcome.last.self_bytes, less);
    EXPECT_EQ(outcome.last.n_refused, 0U);
    EXPECT_EQ(outcome.last.level, scheduler::LoadLevel::kPolite);
}

TEST(LiveDevice, DividedGroupsComeAndGo) {
    const TinyFixture fixture(small_model());
    LivePlay played;
    played.divide_groups = true;
    played.script = first_sample() + sample_line(500, kBudget, ",\"process\":\"game\"") +
                    sample_line(1200, 0) + sample_line(1800, 0, ",\"event\":\"device_lost\"");
    bool divided = false;
    for (std::uint64_t budget = 1400000; budget < 1800000; budget += 40000) {
        SCOPED_TRACE(budget);
        played.vram_budget = budget;
        const LiveOutcome outcome = play(fixture, played);
        for (std::size_t i = 0; i < outcome.texts.size(); ++i) {
            EXPECT_EQ(outcome.errors[i], "");
            EXPECT_FALSE(outcome.texts[i].empty());
        }
        EXPECT_FALSE(outcome.over_budget);
        EXPECT_FALSE(outcome.wrong_books);
        for (const runtime::LoadReport& report : outcome.reports) {
            EXPECT_LE(report.self_bytes, budget);
            for (std::size_t i = 0; i < report.residency->groups.size(); ++i) {
                const int n = report.residency->groups[i].resident;
                const int n_parts = fixture.model().model->catalog().groups[i].parts;
                divided = divided || (n > 0 && n < n_parts);
            }
        }
    }
    EXPECT_TRUE(divided);
}

TEST(LiveDevice, WhatOthersHaveAtTheStartIsNotTaken) {
    const TinyFixture fixture(small_model());
    LivePlay played;
    played.script = first_sample(kBudget) + sample_line(1000, 0);
    const LiveOutcome outcome = play(fixture, played);
    expect_undisturbed(outcome, undisturbed(fixture, played));
    EXPECT_EQ(outcome.reports.front().self_bytes, 0U);
    EXPECT_GT(outcome.last.self_bytes, 0U);
    EXPECT_EQ(outcome.last.n_refused, 0U);
}

TEST(LiveDevice, PauseGivesEveryByteBackAndResumeTakesThemAgain) {
    const TinyFixture fixture(small_model());
    for (const bool by_holder : {false, true}) {
        LivePlay played;
        played.on_token = [&](int n, scheduler::Pauses& pauses) {
            if (n == 60) {
                by_holder
                    ? void(pauses.hold("game",
                                       std::chrono::hours(1) + std::chrono::milliseconds(590),
                                       std::chrono::hours(1) + std::chrono::milliseconds(1200)))
                    : pauses.pause();
            }
            if (n == 120 && !by_holder) {
                pauses.resume();
            }
        };
        const LiveOutcome outcome = play(fixture, played);
        expect_undisturbed(outcome, undisturbed(fixture, played));
        EXPECT_GT(outcome.reports[58].self_bytes, 0U);
        EXPECT_EQ(outcome.reports[64].self_bytes, 0U);
        EXPECT_EQ(outcome.reports[64].level, scheduler::LoadLevel::kPaused);
        EXPECT_EQ(outcome.reports[115].self_bytes, 0U);
        EXPECT_EQ(outcome.last.self_bytes, outcome.reports[58].self_bytes);
        EXPECT_EQ(outcome.last.level, scheduler::LoadLevel::kFull);
    }
}

TEST(LiveDevice, ALongPromptGivesWayBetweenTwoLayers) {
    const TinyFixture fixture({.n_layers = 16, .type = quant::QuantType::kQ8_0});
    LivePlay played;
    played.n_jobs = 1;
    played.n_prompt = 60;
    played.n_tokens = 2;
    played.tick = std::chrono::milliseconds(1);
    const std::vector<std::string> texts = undisturbed(fixture, played);
    int n_within = 0;
    for (int t_ms = 1; t_ms <= 120; t_ms += 4) {
        played.script = first_sample() + sample_line(t_ms, kBudget, ",\"process\":\"game\"");
        const LiveOutcome outcome = play(fixture, played);
        EXPECT_EQ(outcome.texts, texts) << t_ms;
        // A layer asks for the time some ten times; the step does some hundred times.
        if (outcome.first_step_end >= std::chrono::milliseconds(t_ms + 20)) {
            EXPECT_EQ(outcome.first_step_bytes, 0U) << t_ms;
            ++n_within;
        }
    }
    EXPECT_GE(n_within, 5);
}

TEST(LiveDevice, AQuickWaveOfPressureMovesTheShareOnce) {
    const TinyFixture fixture(small_model());
    LivePlay played;
    played.n_tokens = 150;
    played.script = first_sample();
    for (int t_ms = 200; t_ms < 1600; t_ms += 400) {
        played.script += sample_line(t_ms, kBudget) + sample_line(t_ms + 200, 0);
    }
    const LiveOutcome outcome = play(fixture, played);
    expect_undisturbed(outcome, undisturbed(fixture, played));
    EXPECT_EQ(outcome.reports[10].n_moves, 0U);
    EXPECT_EQ(outcome.reports[170].n_moves, 1U) << "it goes and waits for quiet";
    EXPECT_GT(outcome.last.self_bytes, 0U) << "which comes in the end";
}

TEST(LiveDevice, TheComputerSleepsAndWakes) {
    const TinyFixture fixture(small_model());
    LivePlay played;
    played.script = first_sample() + sample_line(500, 0, ",\"event\":\"suspend\"") +
                    sample_line(1200, 0, ",\"event\":\"resume\"");
    const LiveOutcome outcome = play(fixture, played);
    expect_undisturbed(outcome, undisturbed(fixture, played));
    EXPECT_EQ(outcome.reports[60].self_bytes, 0U);
    EXPECT_GT(outcome.last.self_bytes, 0U);
    const auto cause = static_cast<std::size_t>(runtime::LoadCause::kSuspended);
    EXPECT_GT(outcome.last.evicted_bytes[cause], 0U);
}

TEST(LiveDevice, ASleepThatNobodyToldOfIsSeenOnTheClock) {
    const TinyFixture fixture(small_model());
    LivePlay played;
    played.sleeps_after = 60;
    const std::vector<std::string> texts = undisturbed(fixture, played);
    for (const std::uint64_t copies : {played.kv_mirror_bytes, std::uint64_t{0}}) {
        played.kv_mirror_bytes = copies;
        const LiveOutcome outcome = play(fixture, played);
        expect_undisturbed(outcome, texts);
        const auto cause = static_cast<std::size_t>(runtime::LoadCause::kSuspended);
        EXPECT_EQ(outcome.last.evicted_bytes[cause], outcome.reports[55].self_bytes);
        EXPECT_GT(outcome.last.self_bytes, 0U) << "taken again";
        ASSERT_GE(outcome.decisions.size(), 2U);
        EXPECT_NE(outcome.decisions[1].text.find("The computer has slept"), std::string::npos);
        EXPECT_EQ(outcome.last.level, scheduler::LoadLevel::kFull);
    }
}

TEST(LiveDevice, ADeviceThatTheScriptLosesIsTriedAgain) {
    const TinyFixture fixture(small_model());
    LivePlay played;
    played.script = first_sample() + sample_line(500, 0, ",\"event\":\"device_lost\"");
    const LiveOutcome outcome = play(fixture, played);
    expect_undisturbed(outcome, undisturbed(fixture, played));
    EXPECT_EQ(outcome.reports[60].level, scheduler::LoadLevel::kDegraded);
    EXPECT_EQ(outcome.reports[60].degraded, runtime::LoadCause::kLost);
    EXPECT_EQ(outcome.reports[60].self_bytes, 0U);
    // A second later it works again.
    EXPECT_GT(outcome.last.self_bytes, 0U);
    EXPECT_FALSE(outcome.last.degraded.has_value());
    EXPECT_EQ(outcome.last.level, scheduler::LoadLevel::kFull);
}

TEST(LiveFaults, ADeviceLostAtAnySubmissionCostsNoTokenAndNoRequest) {
    const TinyFixture fixture(small_model());
    LivePlay played;
    played.n_tokens = 20;
    const std::vector<std::string> texts = undisturbed(fixture, played);
    int n_lost = 0;
    for (std::uint64_t n = 1; n <= 40; ++n) {
        played.faults.lost_at_submission = n;
        const LiveOutcome outcome = play(fixture, played);
        expect_undisturbed(outcome, texts);
        n_lost +=
            outcome.last.evicted_bytes[static_cast<std::size_t>(runtime::LoadCause::kLost)] > 0;
    }
    EXPECT_GE(n_lost, 20);
}

TEST(LiveFaults, CopiesOnTheHostSpareMostOfTheWorkAfterALoss) {
    const TinyFixture fixture(small_model());
    LivePlay played;
    played.script = first_sample() + sample_line(1500, 0, ",\"event\":\"device_lost\"");
    played.on_token = [](int n, scheduler::Pauses&) {
        if (n == 148) {
            // What is ordered by now has crossed when the device is lost.
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
    };
    const std::vector<std::string> texts = undisturbed(fixture, played);
    const LiveOutcome with = play(fixture, played);
    expect_undisturbed(with, texts);
    LivePlay without_copies = played;
    without_copies.kv_mirror_bytes = 0;
    const LiveOutcome without = play(fixture, without_copies);
    expect_undisturbed(without, texts);
    LivePlay whole = played;
    whole.script = first_sample();
    const int n_rows = play(fixture, whole).n_rows;
    // Three prompts of 204 tokens, and some 50 tokens of each reply, are fed once more.
    EXPECT_GT(without.n_rows, n_rows + 300);
    EXPECT_LT(with.n_rows, n_rows + 100);
    // A block that finds no room for a copy ends what is kept of its sequence.
    LivePlay few_copies = played;
    few_copies.kv_mirror_bytes = 200000;
    const LiveOutcome few = play(fixture, few_copies);
    expect_undisturbed(few, texts);
    EXPECT_LE(few.n_rows, without.n_rows);
}

TEST(LiveFaults, ARefusedSubmissionDegradesWithItsOwnReason) {
    const TinyFixture fixture(small_model());
    LivePlay played;
    played.n_tokens = 20;
    const std::vector<std::string> texts = undisturbed(fixture, played);
    for (std::uint64_t n = 1; n <= 10; ++n) {
        played.faults.failed_submission = n;
        const LiveOutcome outcome = play(fixture, played);
        expect_undisturbed(outcome, texts);
        EXPECT_EQ(outcome.last.degraded, runtime::LoadCause::kFailedSubmission) << n;
        EXPECT_EQ(outcome.last.self_bytes, 0U) << n;
        EXPECT_NE(outcome.last.degraded_text.find("planned fault"), std::string::npos);
    }
}

TEST(LiveFaults, ARefusedAllocationLeavesItsGroupsOnTheCpuAndIsTriedAgain) {
    const TinyFixture fixture(small_model());
    LivePlay played;
    const std::vector<std::string> texts = undisturbed(fixture, played);
    int n_degraded = 0;
    for (std::uint64_t n = 1; n <= 20; ++n) {
        played.faults.failed_allocation = n;
        const LiveOutcome outcome = play(fixture, played);
        expect_undisturbed(outcome, texts);
        if (outcome.reports.front().degraded) {
            ++n_degraded;
            EXPECT_EQ(outcome.reports.front().degraded, runtime::LoadCause::kFailedAllocation);
            EXPECT_FALSE(outcome.last.degraded.has_value()) << n;
        }
        EXPECT_EQ(outcome.last.residency->n_on_device(), 7) << n;
    }
    EXPECT_GE(n_degraded, 10);
}

TEST(LiveFaults, AnEngineThatIdlesGivesTheDeviceBackAndTakesItForTheNextJob) {
    // After five minutes of nothing; time goes on by itself here.
    const TinyFixture fixture(small_model());
    ManualClock clock;
    ListSource source;
    CountingObserver observer;
    auto engine = runtime::Engine::create(fixture.model(),
                                          {.threads = 1, .device = "host", .vram_budget = kBudget},
                                          source,
                                          observer,
                                          clock,
                                          {.hardware = slow_cpu()});
    ASSERT_TRUE(engine.has_value());
    (*engine)->start();
    EXPECT_GT((*engine)->load().self_bytes, 0U);
    const SystemClock real;
    const auto holds = [&](bool wanted) {
        const Nanoseconds end = real.now() + std::chrono::seconds(30);
        while (((*engine)->load().self_bytes > 0) != wanted && real.now() < end) {
            clock.advance(std::chrono::seconds(1));
            source.wake();
            std::this_thread::yield();
        }
        return ((*engine)->load().self_bytes > 0) == wanted;
    };
    EXPECT_TRUE(holds(false));
    EXPECT_GE(clock.now(), std::chrono::minutes(5));
    auto sink = std::make_shared<RecordingSink>();
    runtime::Job job = make_job({1, 2, 3}, 5);
    job.sink = sink;
    source.push(std::make_shared<runtime::Job>(std::move(job)));
    ASSERT_TRUE(sink->wait_for_end());
    EXPECT_GT((*engine)->load().self_bytes, 0U);
    source.close();
    (*engine)->stop();
}

}  // namespace
}  // namespace ballast::test
