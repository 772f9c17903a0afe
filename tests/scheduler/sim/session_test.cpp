// SPDX-License-Identifier: MIT
// What the rules of reaction promise under other programs' load, on simulated machines.
#include "scheduler/sim/sim_session.h"

#include <span>

#include <gtest/gtest.h>

#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"
#include "scheduler/sim/load_traces.h"
#include "tests/support/sanitizer.h"

namespace ballast::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// One model on one machine. A step takes 44 ms, 220 ms and 470 ms on an idle one.
struct Pair {
    const char* model;
    const char* hardware;
};
constexpr Pair kFast = {"qwen3-14b", "laptop-4060"};
constexpr std::array<Pair, 3> kPairs = {
    {kFast, {"qwen3-32b", "desktop-3060-gen4"}, {"llama-3.3-70b", "desktop-4090"}}};

class Machine {
  public:
    explicit Machine(const Pair& pair)
        : catalog_(*catalog_of(*stored_model(pair.model), "")),
          question_({.catalog = &catalog_, .hardware = *stored_hardware(pair.hardware)}),
          session(question_, answer(question_)) {}

    SessionResult run(LoadRule rule, const LoadTrace& trace, const SimMonitor::Faults& seen = {}) {
        return session.run(rule, {.trace = trace, .seen = seen});
    }
    const HardwareProfile& hardware() const { return question_.hardware; }
    double budget() { return session.plans().memory_bytes(); }

  private:
    TensorCatalog catalog_;
    PlanQuestion question_;

  public:
    SimSession session;
};

LoadTrace trace_named(const std::string& name) {
    for (LoadTrace& trace : load_traces()) {
        if (trace.name == name) {
            return trace;
        }
    }
    ADD_FAILURE() << "no trace " << name;
    return {};
}

TEST(SimSession, IsAsFastAsTheIdealWhereNothingHappens) {
    Machine machine(kFast);
    const LoadTrace idle{.name = "idle", .duration = seconds(20), .samples = {{}}};
    const SessionResult ideal = machine.run(LoadRule::kIdeal, idle);
    for (const LoadRule rule : kLoadRules) {
        SCOPED_TRACE(load_rule_key(rule));
        const SessionResult found = machine.run(rule, idle);
        EXPECT_NEAR(found.tokens, ideal.tokens, 1e-3 * ideal.tokens);
        EXPECT_EQ(found.uploaded_bytes, 0.0);
        EXPECT_EQ(found.over_room, Nanoseconds{0});
    }
    EXPECT_GT(ideal.tokens, 400.0);
}

TEST(SimSession, RepeatsItselfExactly) {
    const LoadTrace trace = pulse_trace(12, milliseconds(700), seconds(20));
    const SimMonitor::Faults noisy{.noise = 0.25, .jitter = milliseconds(50), .wrong = 0.05};
    std::array<SessionResult, 2> results;
    for (SessionResult& result : results) {
        Machine machine(kFast);
        result = machine.run(LoadRule::kOurs, trace, noisy);
    }
    ASSERT_GT(results[0].steps.size(), 100U);
    ASSERT_EQ(results[0].steps.size(), results[1].steps.size());
    EXPECT_EQ(results[0].tokens, results[1].tokens);
    EXPECT_EQ(results[0].n_plans, results[1].n_plans);
    EXPECT_EQ(results[0].over_room, results[1].over_room);
    for (std::size_t i = 0; i < results[0].steps.size(); ++i) {
        EXPECT_EQ(results[0].steps[i].end, results[1].steps[i].end);
    }
    EXPECT_EQ(results[0].uploaded_bytes, results[1].uploaded_bytes);
}

TEST(SimSession, CountsEveryTokenInTheTimeline) {
    Machine machine(kFast);
    for (const LoadRule rule : kLoadRules) {
        SCOPED_TRACE(load_rule_key(rule));
        LoadTrace trace = trace_named("suspend");
        trace.duration -= milliseconds(50);  // the last part is half as long as the others
        const SessionResult found = machine.run(rule, trace);
        double tokens = 0.0;
        for (const TimelinePoint& point : found.timeline) {
            tokens += point.tokens;
        }
        EXPECT_GT(tokens, 100.0);
        EXPECT_NEAR(tokens, found.tokens, 1e-6 * tokens);
        EXPECT_EQ(found.timeline.back().time, trace.duration);
    }
}

TEST(SimSession, MeetsTheBudgetWithin200Milliseconds) {
    for (const Pair& pair : kPairs) {
        SCOPED_TRACE(pair.hardware);
        Machine machine(pair);
        for (const LoadTrace& trace : {trace_named("game"),
                                       trace_named("browser"),
                                       pulse_trace(4, seconds(1), seconds(60))}) {
            SCOPED_TRACE(trace.name);
            const SessionResult ours = machine.run(LoadRule::kOurs, trace);
            EXPECT_LE(ours.over_room, milliseconds(200));
            EXPECT_GT(ours.over_room, Nanoseconds{0}) << "nothing had to go";
        }
    }
    // Who keeps the plan is over it as long as the game runs.
    EXPECT_GE(Machine(kFast).run(LoadRule::kSpill, trace_named("game")).over_room, seconds(60));
}

TEST(SimSession, MeetsTheBudgetWithin200MillisecondsOfALateSample) {
    Machine machine(kFast);
    const SimMonitor::Faults late{.lag = milliseconds(150), .jitter = milliseconds(100)};
    const SessionResult ours = machine.run(LoadRule::kOurs, trace_named("game"), late);
    EXPECT_LE(ours.over_room, milliseconds(200) + late.lag + late.jitter);
    const double ideal = machine.run(LoadRule::kIdeal, trace_named("game")).tokens;
    EXPECT_GE(ours.tokens, 0.9 * ideal);
}

TEST(SimSession, LosesNoRequestWhenTheDeviceIsLostOrTheComputerSleeps) {
    for (const Pair& pair : kPairs) {
        SCOPED_TRACE(pair.hardware);
        Machine machine(pair);
        for (const char* name : {"suspend", "device_lost"}) {
            SCOPED_TRACE(name);
            const LoadTrace trace = trace_named(name);
            const SessionResult ours = machine.run(LoadRule::kOurs, trace);
            EXPECT_EQ(ours.n_requests_lost, 0);
            EXPECT_GE(ours.n_steps_redone, 1);
            EXPECT_GE(ours.tokens, 0.95 * machine.run(LoadRule::kIdeal, trace).tokens);
        }
        EXPECT_EQ(machine.run(LoadRule::kSpill, trace_named("device_lost")).n_requests_lost, 1);
    }
}

TEST(SimSession, LosesNothingWithADeviceThatAPlanDoesNotUse) {
    Machine machine(kFast);
    LoadTrace trace = trace_named("device_lost");
    // Others have all of its memory all the time: the best static plan is the CPU's.
    for (LoadSample& sample : trace.samples) {
        sample.device_total_bytes = 8ULL << 30U;
        sample.others_bytes = 8ULL << 30U;
    }
    const SessionResult found = machine.run(LoadRule::kStatic, trace);
    EXPECT_EQ(found.n_requests_lost, 0);
    EXPECT_EQ(found.n_steps_redone, 0);
    EXPECT_NEAR(found.tokens, machine.run(LoadRule::kIdeal, trace).tokens, 1e-3 * found.tokens);
    for (const TimelinePoint& point : machine.run(LoadRule::kIdeal, trace).timeline) {
        EXPECT_EQ(point.resident_bytes, 0U);
    }
}

TEST(SimSession, ShowsNothingOnADeviceThatIsLost) {
    Machine machine(kFast);
    const LoadTrace trace{.name = "lost at once",
                          .duration = seconds(10),
                          .samples = {{.event = LoadEvent::kDeviceLost}, {.time = seconds(8)}}};
    for (const LoadRule rule : {LoadRule::kOurs, LoadRule::kIdeal}) {
        SCOPED_TRACE(load_rule_key(rule));
        const SessionResult found = machine.run(rule, trace);
        EXPECT_EQ(found.timeline[10].resident_bytes, 0U);
        EXPECT_GT(found.timeline[70].resident_bytes, 0U) << "it is back after two seconds";
        EXPECT_EQ(found.n_requests_lost, 0);
    }
}

TEST(SimSession, MakesNineTenthsOfTheIdealUnderUpToFourPulsesAMinute) {
    for (const Pair& pair : kPairs) {
        SCOPED_TRACE(pair.hardware);
        Machine machine(pair);
        for (const int per_minute : {1, 4}) {
            for (const int length : {1, 5}) {
                const LoadTrace trace = pulse_trace(per_minute, seconds(length), seconds(120));
                SCOPED_TRACE(trace.name);
                const double ours = machine.run(LoadRule::kOurs, trace).tokens;
                const double ideal = machine.run(LoadRule::kIdeal, trace).tokens;
                EXPECT_GE(ours, 0.9 * ideal);
                EXPECT_LE(ours, ideal);
            }
        }
        const LoadTrace game = trace_named("game");
        const double ours = machine.run(LoadRule::kOurs, game).tokens;
        EXPECT_GE(ours, 0.9 * machine.run(LoadRule::kIdeal, game).tokens);
        EXPECT_GT(ours, machine.run(LoadRule::kSpill, game).tokens);
        EXPECT_GT(ours, machine.run(LoadRule::kPaper, game).tokens);
    }
}

TEST(SimSession, IsBackAtNineteenTwentiethsOfTheIdealSoonAfterAPulse) {
    for (const Pair& pair : kPairs) {
        SCOPED_TRACE(pair.hardware);
        Machine machine(pair);
        for (const int length_ms : {300, 1000, 5000}) {
            SCOPED_TRACE(length_ms);
            const LoadPulse pulse;
            const Nanoseconds begin = seconds(30);  // quiet before
            const Nanoseconds end = begin + milliseconds(length_ms);
            const LoadTrace trace{.name = "pulse",
                                  .duration = seconds(60),
                                  .samples = {{},
                                              {.time = begin,
                                               .others_bytes = pulse.bytes,
                                               .device_busy = pulse.device_busy,
                                               .link_busy = pulse.link_busy},
                                              {.time = end}}};
            const SessionResult ours = machine.run(LoadRule::kOurs, trace);
            const double ideal = machine.session.ideal_rate(
                {.room_bytes = static_cast<std::uint64_t>(machine.budget())});
            Nanoseconds slow_until{0};
            for (const SessionStep& step : ours.steps) {
                if (to_seconds(step.end - step.begin) > 1.0 / (0.95 * ideal)) {
                    slow_until = step.end;
                }
            }
            EXPECT_GT(slow_until, begin) << "the pulse was not felt";
            const double upload =
                static_cast<double>(pulse.bytes) / (machine.hardware().link_gbps * 1e9);
            EXPECT_LE(to_seconds(slow_until - end), std::max(2.0, 1.5 * upload));
        }
    }
}

TEST(SimSession, KeepsUploadsAndTokensWithinBoundsUnderSquareWaves) {
    for (const Pair& pair : std::span(kPairs).first(test::kSanitized ? 1 : kPairs.size())) {
        SCOPED_TRACE(pair.hardware);
        Machine machine(pair);
        for (const int ms : {100, 200, 400, 1000, 4000, 20000, 120000}) {
            const Nanoseconds period = milliseconds(ms);
            const LoadTrace trace = square_trace(
                period, std::max<Nanoseconds>(seconds(ms < 1000 ? 30 : 60), 2 * period));
            SCOPED_TRACE(trace.name);
            const SessionResult ours = machine.run(LoadRule::kOurs, trace);
            const double budgets = ours.uploaded_bytes / machine.budget();
            EXPECT_LE(budgets, 2.0 + to_seconds(trace.duration) / 10.0);
            EXPECT_GE(ours.tokens, 0.95 * machine.run(LoadRule::kStatic, trace).tokens);
            EXPECT_LE(ours.over_room, milliseconds(200));
        }
    }
}

TEST(SimSession, MakesFewPlansOutOfNoise) {
    Machine machine(kFast);
    const SimMonitor::Faults noisy{.noise = 0.25};
    const LoadTrace idle{.name = "idle", .duration = seconds(60), .samples = {{}}};
    const LoadTrace busy = busy_trace(1, seconds(120));
    // A dozen a minute for each of three noisy figures: device, link and CPU.
    EXPECT_LE(machine.run(LoadRule::kOurs, idle, noisy).n_plans, 3 * 12);
    const SessionResult ours = machine.run(LoadRule::kOurs, busy, noisy);
    EXPECT_LE(ours.n_plans, 2 * 3 * 12 + machine.run(LoadRule::kOurs, busy).n_plans);
    EXPECT_GE(ours.tokens, 0.95 * machine.run(LoadRule::kIdeal, busy).tokens);
}

TEST(SimSession, TakesNoHarmFromWrongSamples) {
    Machine machine(kFast);
    const LoadTrace game = trace_named("game");
    const SessionResult ours = machine.run(LoadRule::kOurs, game, {.wrong = 0.02});
    EXPECT_GE(ours.tokens, 0.95 * machine.run(LoadRule::kIdeal, game).tokens);
    EXPECT_LE(ours.over_room, milliseconds(200));
}

TEST(SimSession, CopiesNothingWhereOnlyTheDeviceIsBusyForAMoment) {
    Machine machine(kFast);
    const SessionResult ours = machine.run(LoadRule::kOurs, trace_named("compositor"));
    EXPECT_EQ(ours.uploaded_bytes, 0.0);
    EXPECT_EQ(ours.over_room, Nanoseconds{0});
}

}  // namespace
}  // namespace ballast::scheduler
