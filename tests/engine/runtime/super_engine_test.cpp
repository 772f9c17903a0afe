// SPDX-License-Identifier: MIT
// An engine that reads long prompts in super-chunks: running streams go on meanwhile and nobody's
// text changes, also where a prompt is cancelled, the engine stops, or the device goes half-way.
#include <atomic>
#include <functional>
#include <mutex>
#include <utility>

#include "scheduler/load/pauses.h"
#include "tests/engine/runtime/harness.h"
#include "tests/engine/runtime/manual_clock.h"
#include "tests/support/sanitizer.h"

namespace ballast::test {
namespace {

constexpr int kContext = 512;

TinyModelOptions small_model() {
    return {.n_layers = 4, .context_length = kContext, .type = quant::QuantType::kQ8_0};
}

std::vector<TokenId> prompt_of(int n, TokenId first) {
    std::vector<TokenId> prompt(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) {
        prompt[static_cast<std::size_t>(i)] = (first + i * 7) % 280;
    }
    return prompt;
}

/// The feed-forwards stream for prompts, and for generated tokens too where `in_decode`; whole, so
/// that results have the bits of the CPU alone.
std::shared_ptr<const scheduler::Plan> streaming_plan(const scheduler::TensorCatalog& catalog,
                                                      bool in_decode) {
    auto plan = std::make_shared<scheduler::Plan>(
        scheduler::Plan{.version = 1, .placement = scheduler::cpu_only(catalog)});
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        if (catalog.groups[i].kind == scheduler::GroupKind::kFeedForward) {
            plan->placement.groups[i].prefill_streamed = catalog.groups[i].parts;
            plan->placement.groups[i].streamed = in_decode ? catalog.groups[i].parts : 0;
        }
    }
    return plan;
}

/// Does something with each token.
class LoudSink final : public runtime::TokenSink {
  public:
    explicit LoudSink(RecordingSink& to) : to_(to) {}
    void on_start() override { to_.on_start(); }
    void on_text(runtime::TextDelta delta) override {
        to_.on_text(std::move(delta));
        if (on_token) {
            on_token();
        }
    }
    void on_finish(runtime::FinishReason reason, const runtime::JobStats& stats) override {
        to_.on_finish(reason, stats);
    }
    void on_error(Error error) override { to_.on_error(std::move(error)); }
    bool cancelled() const override { return to_.cancelled(); }

    std::function<void()> on_token = nullptr;

  private:
    RecordingSink& to_;
};

/// Rows of each step.
class StepList final : public runtime::EngineObserver {
  public:
    void on_step(int n_prefill, int n_decode, Nanoseconds) override {
        steps.emplace_back(n_prefill, n_decode);
    }
    void on_job_started(Nanoseconds) override {}
    void on_first_token(Nanoseconds) override {}
    void on_inter_token(Nanoseconds) override {}
    void on_job_ended(const char*, const runtime::JobStats&) override {}
    void on_load(int, int used, int) override { blocks_used = used; }

    // Read after the engine has stopped.
    std::vector<std::pair<int, int>> steps;
    int blocks_used = -1;
};

struct StageOptions {
    bool on_device = true;
    bool in_decode = false;
    int super_chunk = 8192;
    backend::FaultPlan faults = {};
};

/// One stream that runs, and then others: the second one's prompt is long. Whenever the engine asks
/// for the time 10 ms are over, so that what runs for long is what does much.
class Stage {
  public:
    Stage(const TinyFixture& fixture, const StageOptions& wanted) {
        runtime::EngineParts parts = {.pauses = &pauses, .always_super_chunks = true};
        parts.plan = streaming_plan(fixture.model().model->catalog(), wanted.in_decode);
        parts.host.faults = wanted.faults;
        auto made = runtime::Engine::create(fixture.model(),
                                            {.threads = 2,
                                             .parallel = 4,
                                             .prefill_chunk = 64,
                                             .super_chunk = wanted.super_chunk,
                                             .device = wanted.on_device ? "host" : "auto"},
                                            source,
                                            observer,
                                            clock,
                                            std::move(parts));
        EXPECT_TRUE(made.has_value()) << made.error().message;
        engine = std::move(*made);
        first_loud.on_token = [this] {
            if (first.n_tokens() == 2) {
                for (auto& [job, sink] : std::exchange(waiting, {})) {
                    push(std::move(job), std::move(sink));
                }
            }
            // Only what comes while the second one's prompt is read counts.
            if (others.empty() || !others[0]->started() || others[0]->n_tokens() > 0) {
                return;
            }
            ++n_meanwhile;
            if (meanwhile) {
                meanwhile(n_meanwhile);
            }
        };
        for (int i = 0; i < 3; ++i) {
            others.push_back(std::make_shared<RecordingSink>());
        }
        engine->start();
    }
    ~Stage() { stop(); }
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    void stop() {
        source.close();
        engine->stop();
    }
    void push(runtime::Job job, std::shared_ptr<runtime::TokenSink> sink) {
        job.sink = std::move(sink);
        source.push(std::make_shared<runtime::Job>(std::move(job)));
    }
    /// The first stream, and when it runs `n_others` more.
    void play(int n_others = 1) {
        const int lengths[] = {330, 200, 129};
        for (int i = 0; i < n_others; ++i) {
            waiting.emplace_back(make_job(prompt_of(lengths[i], 40 * i), 9),
                                 others[static_cast<std::size_t>(i)]);
        }
        push(make_job(prompt_of(5, 3), 100), std::shared_ptr<LoudSink>(&first_loud, [](auto*) {}));
    }
    void expect_ends(int n_others) {
        ASSERT_TRUE(first.wait_for_end());
        EXPECT_FALSE(first.error().has_value()) << first.error()->message;
        for (int i = 0; i < n_others; ++i) {
            RecordingSink& sink = *others[static_cast<std::size_t>(i)];
            ASSERT_TRUE(sink.wait_for_end());
            EXPECT_FALSE(sink.error().has_value()) << sink.error()->message;
        }
    }
    std::vector<std::string> texts() const {
        std::vector<std::string> all = {first.text()};
        for (const auto& sink : others) {
            all.push_back(sink->text());
        }
        return all;
    }
    int n_steps(int n_prefill, int n_decode) const {
        return static_cast<int>(std::count(
            observer.steps.begin(), observer.steps.end(), std::pair(n_prefill, n_decode)));
    }

    SteppingClock clock{std::chrono::milliseconds(10)};
    scheduler::Pauses pauses;
    ListSource source;
    StepList observer;
    RecordingSink first;
    LoudSink first_loud{first};
    std::vector<std::shared_ptr<RecordingSink>> others;
    /// Pushed with the first stream's second token, however busy the machine is.
    std::vector<std::pair<runtime::Job, std::shared_ptr<runtime::TokenSink>>> waiting;
    /// Called with the number of the first stream's token since the second one's prompt is read.
    std::function<void(int)> meanwhile = nullptr;
    std::atomic<int> n_meanwhile{0};
    std::unique_ptr<runtime::Engine> engine;
};

/// What the CPU alone says.
std::vector<std::string> texts_of_cpu(const TinyFixture& fixture, int n_others) {
    Stage stage(fixture, {.on_device = false});
    stage.play(n_others);
    stage.expect_ends(n_others);
    return stage.texts();
}

TEST(SuperChunkEngine, StreamsGoOnWhileALongPromptIsReadAndNoTextChanges) {
    const TinyFixture fixture(small_model());
    const std::vector<std::string> expected = texts_of_cpu(fixture, 1);
    for (const bool in_decode : {false, true}) {
        for (const std::uint64_t seed : {0U, 1U}) {
            StageOptions options = {.in_decode = in_decode};
            options.faults.seed = seed;
            options.faults.delay_max = std::chrono::microseconds(seed == 0 ? 0 : 200);
            Stage stage(fixture, options);
            stage.play();
            stage.expect_ends(1);
            stage.stop();
            EXPECT_EQ(stage.texts(), expected);
            EXPECT_EQ(stage.n_steps(330, 0), 1) << "the whole prompt at once";
            EXPECT_GE(stage.n_meanwhile, 3) << "tokens of the first stream meanwhile";
            EXPECT_GE(stage.n_steps(0, 1), stage.n_meanwhile);
            EXPECT_EQ(stage.observer.blocks_used, 0);
        }
    }
}

TEST(SuperChunkEngine, SeveralPromptsShareAChunkOfEverySize) {
    const TinyFixture fixture(small_model());
    const std::vector<std::string> expected = texts_of_cpu(fixture, 3);
    for (const int tokens : {128, 192, 448, 8192}) {
        Stage stage(fixture, {.super_chunk = tokens});
        stage.play(3);
        stage.expect_ends(3);
        stage.stop();
        EXPECT_EQ(stage.texts(), expected) << tokens;
        EXPECT_EQ(stage.observer.blocks_used, 0);
        int most = 0;
        for (const auto& [n_prefill, n_decode] : stage.observer.steps) {
            most = std::max(most, n_prefill);
        }
        EXPECT_LE(most, tokens);
        EXPECT_GT(most, 64);
    }
}

TEST(SuperChunkEngine, ACancelledPromptLeavesNothingBehind) {
    const TinyFixture fixture(small_model());
    std::vector<std::string> expected = texts_of_cpu(fixture, 2);
    expected[1] = "";
    for (const int at : {1, 2, 3}) {
        Stage stage(fixture, {});
        stage.meanwhile = [&](int n) {
            if (n == at) {
                stage.others[0]->cancel();
            }
        };
        stage.play(2);
        ASSERT_TRUE(stage.first.wait_for_end());
        ASSERT_TRUE(stage.others[1]->wait_for_end());
        stage.stop();
        EXPECT_GE(stage.n_meanwhile, at);
        EXPECT_EQ(stage.texts(), expected);
        EXPECT_EQ(stage.others[0]->n_ends(), 0);
        EXPECT_EQ(stage.others[0]->n_events_after_cancel(), 0);
        EXPECT_EQ(stage.observer.blocks_used, 0);
    }
}

TEST(SuperChunkEngine, StopsHalfWay) {
    const TinyFixture fixture(small_model());
    Stage stage(fixture, {.in_decode = true});
    std::atomic<bool> half_way{false};
    stage.meanwhile = [&](int n) { half_way = half_way || n == 2; };
    stage.play();
    while (!half_way) {
        ASSERT_FALSE(stage.first.error().has_value());
        std::this_thread::yield();
    }
    stage.stop();
    EXPECT_EQ(stage.observer.blocks_used, 0);
    EXPECT_EQ(stage.others[0]->n_ends(), 1);
}

TEST(SuperChunkEngine, GivesTheDeviceBackHalfWay) {
    const TinyFixture fixture(small_model());
    const std::vector<std::string> expected = texts_of_cpu(fixture, 2);
    for (const int at : {1, 2, 3}) {
        Stage stage(fixture, {.in_decode = at == 2});
        std::atomic<int> n_after{0};
        stage.first_loud.on_token = [&, counts = stage.first_loud.on_token] {
            counts();
            if (stage.n_meanwhile == at && n_after == 0) {
                stage.pauses.pause();
                n_after = 1;
            } else if (n_after > 0 && ++n_after == 4) {
                EXPECT_EQ(stage.engine->load().self_bytes, 0U);
                stage.pauses.resume();
            }
        };
        stage.play(2);
        stage.expect_ends(2);
        stage.stop();
        EXPECT_GE(n_after, 4) << "not paused";
        EXPECT_EQ(stage.texts(), expected) << at;
        EXPECT_GE(stage.engine->load().n_moves, 1U);
        EXPECT_EQ(stage.observer.blocks_used, 0);
    }
}

TEST(SuperChunkEngine, GoesOnOnTheCpuWhereTheDeviceFailsHalfWay) {
    const TinyFixture fixture(small_model());
    const std::vector<std::string> expected = texts_of_cpu(fixture, 2);
    for (std::uint64_t n = 3; n < 44; n += kSanitized ? 24 : 8) {
        for (const bool lost : {false, true}) {
            StageOptions options = {.in_decode = n % 16 == 11};
            (lost ? options.faults.lost_at_submission : options.faults.failed_submission) = n;
            Stage stage(fixture, options);
            stage.play(2);
            stage.expect_ends(2);
            stage.stop();
            EXPECT_EQ(stage.texts(), expected) << n << (lost ? " lost" : " refused");
            EXPECT_GE(stage.engine->load().n_moves, 1U) << n;
            EXPECT_EQ(stage.observer.blocks_used, 0);
        }
    }
}

}  // namespace
}  // namespace ballast::test
