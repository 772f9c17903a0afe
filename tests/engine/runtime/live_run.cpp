// SPDX-License-Identifier: MIT
// Sinks that move the clock.
#include "tests/engine/runtime/live_run.h"

#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>

namespace ballast::test {

namespace {

constexpr auto kRealTokenTime = std::chrono::microseconds(300);

/// Stands still but for what it is moved, or goes on by a tick whenever it is asked.
class StageClock final : public Clock {
  public:
    explicit StageClock(Nanoseconds tick) : tick_(tick) {}
    Nanoseconds now() const override { return Nanoseconds(ns_.fetch_add(tick_.count())); }
    std::int64_t unix_seconds() const override { return 0; }
    void advance(Nanoseconds by) { ns_.fetch_add(by.count()); }
    Nanoseconds slept() const override { return Nanoseconds(slept_ns_.load()); }
    void sleep(Nanoseconds by) { slept_ns_.fetch_add(by.count()); }

  private:
    const Nanoseconds tick_;
    std::atomic<std::int64_t> slept_ns_{Nanoseconds(std::chrono::hours(5)).count()};
    mutable std::atomic<std::int64_t> ns_{Nanoseconds(std::chrono::hours(1)).count()};
};

/// Shared by the sinks of a run; the engine's thread alone calls.
struct Stage {
    const LivePlay& played;
    StageClock clock{played.tick};
    scheduler::Pauses pauses = {};
    std::function<backend::HostTruth()> truth = nullptr;
    runtime::Engine* engine = nullptr;
    int n_tokens = 0;
    LiveOutcome outcome = {};

    void token() {
        const runtime::LoadReport report = engine->load();
        outcome.most_bytes = std::max(outcome.most_bytes, report.self_bytes);
        outcome.wrong_books |= report.self_bytes != report.booked_bytes;
        outcome.reports.push_back(report);
        played.on_token(++n_tokens, pauses);
        // What crosses beside the steps does so in real time, which this one does not know.
        std::this_thread::sleep_for(kRealTokenTime);
        if (n_tokens == played.sleeps_after) {
            clock.sleep(std::chrono::hours(1));
        }
        clock.advance(played.token_time);
    }
};

/// The end of a step; its begin was at the same time.
class StageObserver final : public runtime::EngineObserver {
  public:
    explicit StageObserver(Stage& stage) : stage_(stage) {}
    void on_step(int n_prefill, int n_decode, Nanoseconds) override {
        stage_.outcome.n_rows += n_prefill + n_decode;
        if (std::exchange(is_first_, false)) {
            stage_.outcome.first_step_end = stage_.clock.now() - std::chrono::hours(1);
            stage_.outcome.first_step_bytes = stage_.engine->load().self_bytes;
        }
        stage_.outcome.over_budget |=
            stage_.truth && stage_.engine->load().self_bytes > stage_.truth().left_bytes;
    }
    void on_job_started(Nanoseconds) override {}
    void on_first_token(Nanoseconds) override {}
    void on_inter_token(Nanoseconds) override {}
    void on_job_ended(const char*, const runtime::JobStats&) override {}
    void on_load(int, int, int) override {}

  private:
    Stage& stage_;
    bool is_first_ = true;
};

class StageSink final : public runtime::TokenSink {
  public:
    explicit StageSink(Stage& stage) : stage_(stage) {}
    void on_start() override {}
    void on_text(runtime::TextDelta delta) override {
        text_ += delta.text;
        stage_.token();
    }
    void on_finish(runtime::FinishReason, const runtime::JobStats&) override { end(""); }
    void on_error(Error error) override { end(error.message); }
    bool cancelled() const override { return false; }

    bool wait() {
        std::unique_lock lock(mutex_);
        return ended_.wait_for(lock, std::chrono::seconds(120), [&] { return is_ended_; });
    }
    const std::string& text() const { return text_; }
    const std::string& error() const { return error_; }

  private:
    void end(const std::string& error) {
        const std::lock_guard lock(mutex_);
        error_ = error;
        is_ended_ = true;
        ended_.notify_all();
    }
    Stage& stage_;
    std::string text_;
    std::string error_;
    std::mutex mutex_;
    std::condition_variable ended_;
    bool is_ended_ = false;
};

}  // namespace

scheduler::HardwareProfile slow_cpu() {
    return {.name = "slow",
            .source = "made up",
            .cpu_read_gbps = 0.001,
            .dram_gbps = 0.00125,
            .cpu_tflops = 0.00001,
            .ram_gb = 1.0};
}

LiveOutcome play(const TinyFixture& fixture, const LivePlay& played) {
    Stage stage{.played = played};
    const runtime::EngineOptions options = {.threads = 2,
                                            .parallel = 4,
                                            .device = played.device,
                                            .vram_budget = played.vram_budget,
                                            .kv_mirror_bytes = played.kv_mirror_bytes,
                                            .divide_groups = played.divide_groups};
    auto samples = scheduler::parse_sample_script(played.script);
    EXPECT_TRUE(samples.has_value()) << samples.error().message;
    scheduler::SampleScript script(std::move(*samples), std::chrono::hours(1));
    runtime::EngineParts parts = {.hardware = slow_cpu(), .pauses = &stage.pauses};
    parts.host.faults = played.faults;
    parts.host.pace = played.pace;
    if (!played.script.empty()) {
        parts.monitor = &script;
        stage.truth = runtime::host_truth(script, stage.clock);
        parts.host.truth = stage.truth;
    }
    ListSource source;
    StageObserver observer(stage);
    auto engine = runtime::Engine::create(
        fixture.model(), options, source, observer, stage.clock, std::move(parts));
    EXPECT_TRUE(engine.has_value()) << engine.error().message;
    stage.engine = engine->get();
    std::vector<std::shared_ptr<StageSink>> sinks;
    for (int i = 0; i < played.n_jobs; ++i) {
        std::vector<TokenId> prompt(
            static_cast<std::size_t>(i == 0 ? played.n_prompt : 7 + 30 * i));
        std::iota(prompt.begin(), prompt.end(), 100 + i);
        sinks.push_back(std::make_shared<StageSink>(stage));
        runtime::Job job = make_job(std::move(prompt), played.n_tokens, 7);
        job.sink = sinks.back();
        source.push(std::make_shared<runtime::Job>(std::move(job)));
    }
    (*engine)->start();
    for (const auto& sink : sinks) {
        EXPECT_TRUE(sink->wait());
    }
    source.close();
    (*engine)->stop();
    for (const auto& sink : sinks) {
        stage.outcome.texts.push_back(sink->text());
        stage.outcome.errors.push_back(sink->error());
    }
    stage.outcome.last = (*engine)->load();
    stage.outcome.decisions = (*engine)->scheduler().state().decisions;
    return std::move(stage.outcome);
}

std::string sample_line(int t_ms, std::uint64_t others, const std::string& more) {
    return "{\"t_ms\":" + std::to_string(t_ms) + ",\"others_bytes\":" + std::to_string(others) +
           more + "}\n";
}

std::string first_sample(std::uint64_t others) {
    return sample_line(0, others, ",\"device_total_bytes\":" + std::to_string(kLiveBudget));
}

std::vector<std::string> undisturbed(const TinyFixture& fixture, const LivePlay& played) {
    LivePlay alone = played;
    alone.script.clear();
    alone.faults = {};
    alone.pace = {};
    alone.on_token = LivePlay().on_token;
    alone.device = "auto";
    LiveOutcome outcome = play(fixture, alone);
    for (const std::string& error : outcome.errors) {
        EXPECT_EQ(error, "");
    }
    return outcome.texts;
}

void expect_undisturbed(const LiveOutcome& outcome, const std::vector<std::string>& texts) {
    EXPECT_EQ(outcome.texts, texts);
    for (const std::string& error : outcome.errors) {
        EXPECT_EQ(error, "");
    }
    EXPECT_FALSE(outcome.over_budget);
    EXPECT_FALSE(outcome.wrong_books);
}

}  // namespace ballast::test
