// SPDX-License-Identifier: MIT
// The engine thread on a tiny model: how replies end, what is refused, and that the pool of KV
// blocks is whole afterwards.
#include <atomic>
#include <numeric>

#include "tests/engine/runtime/harness.h"

namespace ballast::test {
namespace {

std::vector<TokenId> some_prompt(int n) {
    std::vector<TokenId> ids(static_cast<std::size_t>(n));
    std::iota(ids.begin(), ids.end(), 100);
    return ids;
}

TEST(Engine, EndsAReplyAtMaxTokensAndCountsIt) {
    const TinyFixture fixture;
    Running running(fixture.model(), {.threads = 2});
    const auto sink = running.submit(make_job(some_prompt(10), 12));
    ASSERT_TRUE(sink->wait_for_end());
    EXPECT_TRUE(sink->started());
    EXPECT_FALSE(sink->error().has_value());
    EXPECT_EQ(sink->reason(), runtime::FinishReason::kLength);
    EXPECT_EQ(sink->stats().prompt_tokens, 10);
    EXPECT_EQ(sink->stats().completion_tokens, 12);
    EXPECT_EQ(sink->n_tokens(), 12);
    EXPECT_EQ(sink->logprobs().size(), 12U);
    EXPECT_EQ(sink->n_ends(), 1);
}

TEST(Engine, GivesAllBlocksBackAndHearsEveryToken) {
    const TinyFixture fixture;
    CountingObserver heard;
    {
        Running running(fixture.model(), {.threads = 1, .parallel = 3});
        std::vector<std::shared_ptr<RecordingSink>> sinks;
        for (int i = 0; i < 8; ++i) {
            sinks.push_back(running.submit(make_job(some_prompt(5 + 9 * i), 6)));
        }
        for (const auto& sink : sinks) {
            ASSERT_TRUE(sink->wait_for_end());
            EXPECT_EQ(sink->stats().completion_tokens, 6);
        }
        running.source.close();
        running.engine->stop();
        heard = running.observer;
    }
    EXPECT_EQ(heard.blocks_used, 0);
    EXPECT_EQ(heard.n_started, 8);
    EXPECT_EQ(heard.n_first, 8);
    EXPECT_EQ(heard.n_inter, 8 * 5);
    EXPECT_EQ(heard.prefill_tokens, 8 * 5 + 9 * (7 * 8 / 2));
    EXPECT_EQ(heard.decode_tokens, 8 * 5);
    EXPECT_GE(heard.decode_tokens_max, 2);
    EXPECT_EQ(heard.outcomes, std::vector<std::string>(8, "length"));
}

/// Looks at what the observer has heard at each call; both are called on the engine thread.
class AuditingSink final : public runtime::TokenSink {
  public:
    explicit AuditingSink(const CountingObserver& heard) : heard_(heard) {}

    void on_start() override { EXPECT_EQ(heard_.n_started, 1); }
    void on_text(runtime::TextDelta delta) override {
        n_tokens_ += delta.n_tokens;
        EXPECT_GE(heard_.n_first + heard_.n_inter, n_tokens_);
    }
    void on_finish(runtime::FinishReason, const runtime::JobStats&) override { note_end(); }
    void on_error(Error) override { note_end(); }
    bool cancelled() const override { return false; }

    void wait_for_end() { ended_.wait(false); }

  private:
    void note_end() {
        EXPECT_EQ(heard_.outcomes.size(), 1U);
        ended_.store(true);
        ended_.notify_all();
    }

    const CountingObserver& heard_;
    int n_tokens_ = 0;
    std::atomic<bool> ended_{false};
};

TEST(Engine, CountsBeforeItTells) {
    const TinyFixture fixture;
    for (const int max_tokens : {0, 1, 9}) {
        Running running(fixture.model(), {.threads = 1});
        const auto sink = std::make_shared<AuditingSink>(running.observer);
        running.submit_to(make_job(some_prompt(10), max_tokens), sink);
        sink->wait_for_end();
    }
    for (const runtime::Job& refused :
         {make_job(some_prompt(10), 1 << 30), make_job({1 << 30}, 1)}) {
        Running running(fixture.model(), {.threads = 1});
        const auto sink = std::make_shared<AuditingSink>(running.observer);
        running.submit_to(refused, sink);
        sink->wait_for_end();
    }
}

TEST(Engine, StopsAtAStopStringThatSpansTokensWithoutShowingIt) {
    const TinyFixture fixture;
    Running running(fixture.model(), {.threads = 1});
    const auto whole = running.submit(make_job(some_prompt(10), 40));
    ASSERT_TRUE(whole->wait_for_end());
    const std::string text = whole->text();
    ASSERT_GT(text.size(), 12U);
    runtime::Job job = make_job(some_prompt(10), 40);
    job.stop = {text.substr(6, 5)};
    const std::string expected = text.substr(0, text.find(job.stop[0]));
    const auto cut = running.submit(std::move(job));
    ASSERT_TRUE(cut->wait_for_end());
    EXPECT_EQ(cut->reason(), runtime::FinishReason::kStop);
    EXPECT_EQ(cut->text(), expected);
}

TEST(Engine, EndsAtTheEndOfGenerationToken) {
    const TinyFixture fixture;
    Running running(fixture.model(), {.threads = 1});
    runtime::Job job = make_job(some_prompt(10), 40);
    job.ignore_eos = false;
    job.sampling.temperature = 0.0F;
    job.sampling.logit_bias = {{2, 1e6F}};
    const auto sink = running.submit(std::move(job));
    ASSERT_TRUE(sink->wait_for_end());
    EXPECT_EQ(sink->reason(), runtime::FinishReason::kStop);
    EXPECT_EQ(sink->text(), "");
    EXPECT_EQ(sink->stats().completion_tokens, 1);
}

TEST(Engine, NeverEndsEarlyWhenTheEndIsIgnored) {
    const TinyFixture fixture;
    Running running(fixture.model(), {.threads = 1});
    runtime::Job job = make_job(some_prompt(10), 20);
    job.sampling.logit_bias = {{2, 1e6F}};
    const auto sink = running.submit(std::move(job));
    ASSERT_TRUE(sink->wait_for_end());
    EXPECT_EQ(sink->reason(), runtime::FinishReason::kLength);
    EXPECT_EQ(sink->stats().completion_tokens, 20);
}

TEST(Engine, AnswersAJobOfNoNewTokensAtOnce) {
    const TinyFixture fixture;
    Running running(fixture.model(), {.threads = 1});
    const auto sink = running.submit(make_job(some_prompt(10), 0));
    ASSERT_TRUE(sink->wait_for_end());
    EXPECT_EQ(sink->reason(), runtime::FinishReason::kLength);
    EXPECT_EQ(sink->stats().prompt_tokens, 10);
    EXPECT_EQ(sink->stats().completion_tokens, 0);
}

TEST(Engine, RefusesWhatDoesNotFitTheContext) {
    const TinyFixture fixture;
    Running running(fixture.model(), {.threads = 1, .context = 64});
    for (const auto& job : {make_job(some_prompt(60), 5),
                            make_job({}, 5),
                            make_job({-1}, 5),
                            make_job({static_cast<TokenId>(kTinyVocabulary)}, 5)}) {
        const auto sink = running.submit(job);
        ASSERT_TRUE(sink->wait_for_end());
        ASSERT_TRUE(sink->error().has_value());
        EXPECT_EQ(sink->error()->code, ErrorCode::kInvalidRequest);
    }
    const auto fits = running.submit(make_job(some_prompt(60), 4));
    ASSERT_TRUE(fits->wait_for_end());
    EXPECT_EQ(fits->stats().completion_tokens, 4);
}

TEST(Engine, DropsACancelledJobAndGoesOnWithTheOthers) {
    const TinyFixture fixture;
    Running running(fixture.model(), {.threads = 2});
    auto cancelled = std::make_shared<RecordingSink>();
    cancelled->cancel_after(3);
    running.submit_to(make_job(some_prompt(10), 200), cancelled);
    const auto other = running.submit(make_job(some_prompt(20), 100));
    ASSERT_TRUE(other->wait_for_end());
    EXPECT_EQ(other->stats().completion_tokens, 100);
    // One event may carry several tokens, but none comes once the sink has said no.
    EXPECT_EQ(cancelled->n_ends(), 0);
    EXPECT_GE(cancelled->n_tokens(), 3);
    EXPECT_EQ(cancelled->n_events_after_cancel(), 0);
}

TEST(Engine, TellsRunningJobsWhenItIsStopped) {
    const TinyFixture fixture;
    Running running(fixture.model(), {.threads = 1, .parallel = 1});
    const auto first = running.submit(make_job(some_prompt(10), 240));
    const auto waiting = running.submit(make_job(some_prompt(10), 240));
    ASSERT_TRUE(first->wait_for_tokens(1));
    running.engine->stop();
    for (const auto& sink : {first, waiting}) {
        ASSERT_TRUE(sink->wait_for_end());
        if (sink->error().has_value()) {
            EXPECT_EQ(sink->error()->code, ErrorCode::kCancelled);
        } else {
            EXPECT_EQ(sink->stats().completion_tokens, 240);
        }
    }
    EXPECT_TRUE(waiting->error().has_value());
    EXPECT_TRUE(running.engine->idle());
}

TEST(Engine, RefusesOptionsOutOfRangeByName) {
    const TinyFixture fixture;
    ListSource source;
    CountingObserver observer;
    const SystemClock clock;
    const auto message = [&](const runtime::EngineOptions& options) {
        const auto created =
            runtime::Engine::create(fixture.model(), options, source, observer, clock);
        return created ? std::string() : created.error().message;
    };
    EXPECT_NE(message({.threads = -1}).find("threads is -1"), std::string::npos);
    EXPECT_NE(message({.context = 257}).find("context is 257"), std::string::npos);
    EXPECT_NE(message({.parallel = 0}).find("parallel is 0"), std::string::npos);
    EXPECT_NE(message({.prefill_chunk = 100}).find("prefill_chunk is 100"), std::string::npos);
    EXPECT_NE(message({.kv_type = "q3"}).find("kv_type is \"q3\""), std::string::npos);
    EXPECT_NE(message({.force_isa = "mmx"}).find("mmx"), std::string::npos);
    EXPECT_EQ(message({}), "");
}

}  // namespace
}  // namespace ballast::test
