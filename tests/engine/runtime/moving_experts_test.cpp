// SPDX-License-Identifier: MIT
// A running executor whose experts move between the device's slots: its logits are the CPU's in
// every step while they move, and slots follow the text.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "tests/engine/model/reference.h"
#include "tests/engine/runtime/divided_plans.h"
#include "tests/engine/runtime/harness.h"
#include "tests/support/sanitizer.h"
#include "tests/support/test_data.h"

namespace ballast::test {
namespace {

constexpr int kPrompt = 48;
constexpr std::uint64_t kDeviceBytes = 1ULL << 30U;

/// Of each layer's experts so many are in slots, and so many cross for prompts; attention and head
/// are shared between the sides.
std::shared_ptr<const scheduler::Plan> slots_plan(const scheduler::TensorCatalog& catalog,
                                                  int n_slots,
                                                  int n_prefill_streamed) {
    scheduler::Plan plan{
        .version = 1, .reason = "of a test", .placement = scheduler::cpu_only(catalog)};
    for (std::size_t i = 0; i < catalog.groups.size(); ++i) {
        const scheduler::TensorGroup& group = catalog.groups[i];
        scheduler::GroupPlacement& placed = plan.placement.groups[i];
        if (group.kind == scheduler::GroupKind::kExperts) {
            placed = {.resident = n_slots, .shared_on_device = true};
            placed.prefill_streamed = n_prefill_streamed;
        } else {
            placed.resident = group.parts / 2;
        }
    }
    return std::make_shared<const scheduler::Plan>(std::move(plan));
}

struct Options {
    std::string rule = "frequency";
    int n_slots = 20;
    int n_prefill_streamed = 0;
    backend::HostOptions host = {};
    std::size_t tile_bytes = scheduler::kTileBytesMax;
};

/// One text on the CPU alone and with a device beside it, step by step.
class Pair {
  public:
    Pair(const model::Model& model, const Options& options) {
        runtime::EngineOptions engine = {.threads = 1, .kv_type = "f32"};
        engine.expert_slots = options.rule;
        runtime::ComputeShape shape = {
            .sequences = 1, .context = 2048, .rows = kPrompt, .outputs = 1};
        open(alone_, model, engine, shape);
        engine.device = "host";
        engine.vram_budget = kDeviceBytes;
        shape.plan = slots_plan(model.catalog(), options.n_slots, options.n_prefill_streamed);
        shape.host = options.host;
        shape.tile_bytes = options.tile_bytes;
        shape.checker = std::make_shared<backend::AccessChecker>(backend::AccessChecker::Options{
            .handler = [](const std::string& sentence) { ADD_FAILURE() << sentence; }});
        open(shared_, model, engine, shape);
        EXPECT_EQ(shared().residency().degraded, "");
    }

    /// Runs the tokens on both, as a prompt's or as generated ones, and returns the rms difference
    /// of the logits after the last. Nothing more is said once the device fails.
    double step(const std::vector<TokenId>& tokens, bool decode) {
        feed(alone_, tokens, decode);
        status_ = feed(shared_, tokens, decode);
        position_ += static_cast<int>(tokens.size());
        return status_ ? rms_difference(logits(shared_), logits(alone_))
                       : std::numeric_limits<double>::infinity();
    }
    /// The step again, on what there is of the device by now.
    double again(const std::vector<TokenId>& tokens, bool decode) {
        position_ -= static_cast<int>(tokens.size());
        status_ = feed(shared_, tokens, decode);
        position_ += static_cast<int>(tokens.size());
        return status_ ? rms_difference(logits(shared_), logits(alone_))
                       : std::numeric_limits<double>::infinity();
    }
    const Status& status() const { return status_; }
    runtime::Compute& shared() { return *shared_.compute; }
    runtime::ExpertReport report() { return report_of(shared_); }
    runtime::ExpertReport report_alone() { return report_of(alone_); }

  private:
    struct Run {
        std::unique_ptr<runtime::Compute> compute;
        std::unique_ptr<cache::BlockTable> table;
    };
    static void open(Run& run,
                     const model::Model& model,
                     const runtime::EngineOptions& options,
                     const runtime::ComputeShape& shape) {
        auto created = runtime::Compute::create(model, options, shape);
        ASSERT_TRUE(created.has_value()) << created.error().message;
        run.compute = std::move(*created);
        run.table = std::make_unique<cache::BlockTable>(run.compute->blocks(),
                                                        run.compute->blocks_per_sequence());
    }
    Status feed(Run& run, const std::vector<TokenId>& tokens, bool decode) {
        const auto n = static_cast<int>(tokens.size());
        EXPECT_TRUE(run.table->grow(position_ + n).has_value());
        const backend::SequenceRows rows{
            .n_rows = n, .first_position = position_, .blocks = run.table->blocks()};
        const std::int32_t last = n - 1;
        // Experts cross in real time, which steps of so small a model hardly take.
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        return run.compute->executor().run({.tokens = tokens,
                                            .sequences = {&rows, 1},
                                            .n_decode_rows = decode ? n : 0,
                                            .output_rows = {&last, 1}});
    }
    static std::vector<float> logits(Run& run) {
        const auto row = run.compute->executor().logits(0);
        return {row.begin(), row.end()};
    }
    static runtime::ExpertReport report_of(Run& run) {
        run.compute->expert_use().publish(Nanoseconds(0), true);
        return run.compute->expert_use().report();
    }

    Run alone_;
    Run shared_;
    std::int64_t position_ = 0;
    Status status_;
};

/// Tokens of one topic, without an end.
class TopicText {
  public:
    TopicText(const TinyModelOptions& options, std::uint64_t seed)
        : each_(kTinyVocabulary / options.n_topics), rng_(seed) {}
    std::vector<TokenId> next(std::uint32_t topic, int n) {
        std::vector<TokenId> tokens;
        for (int i = 0; i < n; ++i) {
            tokens.push_back(static_cast<TokenId>(topic * each_ + rng_.below(each_)));
        }
        return tokens;
    }

  private:
    std::uint32_t each_;
    Rng rng_;
};

double hit_rate(const runtime::ExpertReport& before, const runtime::ExpertReport& after) {
    const auto hits = static_cast<double>(after.hits - before.hits);
    return hits / (hits + static_cast<double>(after.misses - before.misses));
}

class MovingExperts : public testing::TestWithParam<std::string> {};

/// Prompts and generated tokens of topics in turn; returns the largest rms difference.
double worst_over_topics(Pair& pair, TopicText& text, int n_topics, int n_decode) {
    double worst = 0.0;
    for (int turn = 0; turn < n_topics; ++turn) {
        const auto topic = static_cast<std::uint32_t>(turn % 4);
        worst = std::max(worst, pair.step(text.next(topic, kPrompt), false));
        for (int i = 0; i < n_decode; ++i) {
            worst = std::max(worst, pair.step(text.next(topic, 1), true));
        }
    }
    return worst;
}

TEST_P(MovingExperts, GiveTheCpusLogitsInEveryStep) {
    const TinyModelOptions o = hot_expert_options();
    const TinyFixture fixture(o);
    const model::Model& model = *fixture.model().model;
    for (const int streamed : {0, 17, 44}) {
        for (const bool late : {false, true}) {
            Options options = {
                .rule = GetParam(), .n_prefill_streamed = streamed, .tile_bytes = 300'000};
            if (late) {
                options.host.faults.seed = 11;
                options.host.faults.delay_max = std::chrono::milliseconds(1);
            }
            Pair pair(model, options);
            TopicText text(o, 5);
            const double worst = worst_over_topics(pair, text, 4, kSanitized ? 8 : late ? 16 : 40);
            const runtime::ExpertReport report = pair.report();
            fmt::print("{}, {} streamed, {}: rms of the difference at most {:.1e}, {} moves\n",
                       GetParam(),
                       streamed,
                       late ? "late" : "in time",
                       worst,
                       report.n_moves);
            EXPECT_GT(worst, 0.0);
            EXPECT_LE(worst, 1e-4);
            EXPECT_GE(report.n_moves, 16U) << "experts moved while this was so";
        }
    }
}

TEST_P(MovingExperts, AreThoseOfTheTextWithinABoundedNumberOfSteps) {
    const TinyModelOptions o = hot_expert_options();
    const TinyFixture fixture(o);
    Pair pair(*fixture.model().model, {.rule = GetParam()});
    TopicText text(o, 6);
    // Four layers of at most 20 hot experts, four moves a step, and by frequency the 338 tokens
    // after which what is hot now counts more than what was before (expert_moves_test.cpp).
    const int bound = GetParam() == "lru" ? 40 : 180;
    double worst = 0.0;
    for (const std::uint32_t topic : {0U, 2U, 1U}) {
        const runtime::ExpertReport before = pair.report();
        for (int chunk = 0; chunk < 4; ++chunk) {
            worst = std::max(worst, pair.step(text.next(topic, kPrompt), false));
        }
        const runtime::ExpertReport early = pair.report();
        for (int i = 0; i < bound; ++i) {
            worst = std::max(worst, pair.step(text.next(topic, 1), true));
        }
        const runtime::ExpertReport then = pair.report();
        for (int i = 0; i < 32; ++i) {
            worst = std::max(worst, pair.step(text.next(topic, 1), true));
        }
        const runtime::ExpertReport after = pair.report();
        fmt::print("{}, topic {}: hits {:.2f} of the prompt, {:.2f} in the end, {} moves\n",
                   GetParam(),
                   topic,
                   hit_rate(before, early),
                   hit_rate(then, after),
                   after.n_moves - before.n_moves);
        EXPECT_GT(after.n_moves, before.n_moves);
        EXPECT_GE(hit_rate(then, after), 0.8) << "topic " << topic;
        EXPECT_EQ(after.hits + after.misses - then.hits - then.misses, 32U * 4U * 4U);
    }
    EXPECT_LE(worst, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Rules,
                         MovingExperts,
                         testing::Values("frequency", "lru"),
                         [](const auto& test) { return test.param; });

TEST(FixedExperts, StayWhereTheyWereAndAreCounted) {
    const TinyModelOptions o = hot_expert_options();
    const TinyFixture fixture(o);
    // Also where the CPU computes none of a prompt's.
    for (const int streamed : {0, 17, 44}) {
        Pair pair(*fixture.model().model, {.rule = "fixed", .n_prefill_streamed = streamed});
        TopicText text(o, 5);
        EXPECT_LE(worst_over_topics(pair, text, 2, 20), 1e-4);
        const runtime::ExpertReport report = pair.report();
        EXPECT_EQ(report.n_moves, 0U);
        EXPECT_GT(report.hits, 0U);
        EXPECT_EQ(report.hits + report.misses, 2U * (kPrompt + 20U) * 4U * 4U);
        EXPECT_GT(report.summary.hit_rate, 0.0);
        const runtime::ExpertReport alone = pair.report_alone();
        EXPECT_EQ(alone.hits, 0U);
        EXPECT_EQ(alone.misses, report.hits + report.misses) << "they are counted without a device";
        EXPECT_GE(alone.summary.hottest_50, 0.8);
    }
}

TEST(MovingExperts, OfTheReferenceModelGiveTheCpusLogits) {
    BALLAST_REFDATA_OR_SKIP(path, "tiny/llama-moe-mixtral-spm.gguf");
    const OpenModel open = open_model(path);
    const int n_experts = open.model->config().n_experts;
    for (const std::string rule : {"frequency", "lru"}) {
        for (const int n_slots : {1, n_experts / 2, n_experts - 1}) {
            Pair pair(*open.model,
                      {.rule = rule, .n_slots = n_slots, .n_prefill_streamed = 1, .tile_bytes = 1});
            Rng rng(3);
            double worst = 0.0;
            for (int step = 0; step < 40; ++step) {
                std::vector<TokenId> tokens;
                for (int i = 0; i < (step % 10 == 0 ? 9 : 1); ++i) {
                    tokens.push_back(static_cast<TokenId>(
                        rng.below(static_cast<std::uint64_t>(open.model->config().vocabulary))));
                }
                worst = std::max(worst, pair.step(tokens, step % 10 != 0));
            }
            EXPECT_LE(worst, 1e-4) << rule << ' ' << n_slots;
            EXPECT_GT(pair.report().n_moves, 0U) << rule << ' ' << n_slots;
        }
    }
}

TEST(MovingExperts, DoNotMoveWhereGroupsAreWhole) {
    const TinyModelOptions o = hot_expert_options();
    const TinyFixture fixture(o);
    Pair pair(*fixture.model().model, {.n_slots = 64});
    TopicText text(o, 5);
    EXPECT_LE(worst_over_topics(pair, text, 2, 10), 1e-4);
    EXPECT_EQ(pair.report().n_moves, 0U);
    EXPECT_EQ(pair.report().hits + pair.report().misses, 0U) << "nobody else is told of choices";
}

TEST(MovingExperts, MayBeOnTheirWayWhenTheDeviceIsGivenBack) {
    const TinyModelOptions o = hot_expert_options();
    const TinyFixture fixture(o);
    // One expert takes 37 ms to cross, so that some are on their way at any time.
    Options options = {.rule = "lru"};
    options.host.pace.link_gbps = 0.002;
    Pair pair(*fixture.model().model, options);
    TopicText text(o, 5);
    EXPECT_LE(worst_over_topics(pair, text, 1, 6), 1e-4);
    const auto released = pair.shared().release_device();
    ASSERT_TRUE(released.has_value()) << released.error().message;
    EXPECT_FALSE(released->kv_lost);
    EXPECT_EQ(pair.shared().device_use().bytes, 0U);
    EXPECT_LE(worst_over_topics(pair, text, 1, 6), 1e-4);
}

TEST(MovingExperts, AreWaitedForByAPromptThatNeedsAllSlots) {
    const TinyModelOptions o = hot_expert_options();
    const TinyFixture fixture(o);
    Options options = {.rule = "lru", .n_prefill_streamed = 44};
    options.host.pace.link_gbps = 0.05;  // one expert takes 1.5 ms, about a step
    Pair pair(*fixture.model().model, options);
    TopicText text(o, 5);
    for (int turn = 0; turn < 4; ++turn) {
        EXPECT_LE(worst_over_topics(pair, text, 1, 8), 1e-4) << "turn " << turn;
    }
    EXPECT_GT(pair.report().n_moves, 0U);
}

TEST(MovingExperts, MayBeLostWithTheDevice) {
    const TinyModelOptions o = hot_expert_options();
    const TinyFixture fixture(o);
    std::atomic<std::uint64_t> n_losses{0};
    Options options = {.rule = "lru"};
    options.host.truth = [&n_losses] {
        return backend::HostTruth{.left_bytes = kDeviceBytes, .n_losses = n_losses.load()};
    };
    Pair pair(*fixture.model().model, options);
    TopicText text(o, 5);
    EXPECT_LE(worst_over_topics(pair, text, 1, 40), 1e-4);
    EXPECT_GT(pair.report().n_moves, 0U);
    n_losses.store(1);
    const std::vector<TokenId> tokens = text.next(2, 1);
    pair.step(tokens, true);
    ASSERT_FALSE(pair.status().has_value());
    EXPECT_EQ(pair.status().error().code, ErrorCode::kDeviceLost);
    const auto released = pair.shared().release_device();
    ASSERT_TRUE(released.has_value()) << released.error().message;
    pair.again(tokens, true);
    EXPECT_TRUE(pair.status().has_value());
}

/// The device's side becomes as the plan says, from what is in its memory.
void follow_plan(runtime::Compute& compute, const scheduler::Placement& placement) {
    runtime::DeviceSide& device = *compute.device_side();
    ASSERT_TRUE(device.execute(placement).has_value());
    ASSERT_TRUE(device.take_for_steps(kDeviceBytes));
    compute.follow_device();
}

// Slots come in a second piece of memory, of which some experts have moved to the first one, up to
// all there are; then they are not used, used again, and given up.
TEST(MovingExperts, StayWhereTheyAreWhilePiecesOfMemoryComeAndGo) {
    const TinyModelOptions o = hot_expert_options();
    const TinyFixture fixture(o);
    const model::Model& model = *fixture.model().model;
    for (const int n_more : {14, 54}) {
        Options options = {.rule = "lru", .n_slots = 10};
        options.host.pace.link_gbps = 0.1;  // so that some are on their way
        Pair pair(model, options);
        TopicText text(o, 5);
        // Experts beyond the first ten are hot, and come into the first ten slots.
        EXPECT_LE(worst_over_topics(pair, text, 2, 8), 1e-4);
        runtime::DeviceSide& device = *pair.shared().device_side();
        std::vector<runtime::DeviceSide::Piece> pieces;
        for (std::size_t i = 0; i < model.catalog().groups.size(); ++i) {
            if (model.catalog().groups[i].kind == scheduler::GroupKind::kExperts) {
                pieces.push_back({i, {10, n_more}});
            }
        }
        device.begin_upload(pieces, kDeviceBytes);
        while (device.is_uploading()) {
            ASSERT_TRUE(device.advance_upload(kDeviceBytes, kDeviceBytes).has_value());
        }
        const auto small = slots_plan(model.catalog(), 10, 0)->placement;
        const auto large = slots_plan(model.catalog(), 10 + n_more, 0)->placement;
        for (const scheduler::Placement* const next : {&large, &small, &large}) {
            follow_plan(pair.shared(), *next);
            EXPECT_LE(worst_over_topics(pair, text, 2, 8), 1e-4) << n_more;
        }
        device.keep(small);
        follow_plan(pair.shared(), small);
        EXPECT_LE(worst_over_topics(pair, text, 2, 8), 1e-4) << n_more;
        EXPECT_GT(pair.report().n_moves, 8U);
    }
}

/// Replies of one topic after another, on what the scheduler plans for a device with room for about
/// half of the experts.
TEST(MovingExperts, OfARunningEngineFollowItsRequests) {
    const TinyModelOptions o = hot_expert_options();
    const TinyFixture fixture(o);
    for (const bool divide : {true, false}) {
        runtime::EngineOptions options = {
            .threads = 2, .device = "host", .vram_budget = 12U << 20U};
        options.divide_groups = divide;
        // So slow a machine that a hop costs nothing beside its tiny experts.
        const scheduler::HardwareProfile slow = {.name = "slow",
                                                 .source = "of a test",
                                                 .cpu_read_gbps = 0.02,
                                                 .dram_gbps = 0.025,
                                                 .cpu_tflops = 0.0005,
                                                 .ram_gb = 16.0};
        Running running(fixture.model(), options, {.hardware = slow});
        TopicText text(o, 8);
        for (const std::uint32_t topic : {0U, 3U, 1U}) {
            const auto sink = running.submit(make_job(text.next(topic, 64), 60));
            ASSERT_TRUE(sink->wait_for_end());
            ASSERT_FALSE(sink->error().has_value()) << sink->error()->message;
        }
        running.source.close();
        running.engine->stop();  // so that the report is up to date
        const runtime::ExpertReport report = running.engine->load().experts;
        EXPECT_TRUE(report.has_experts);
        EXPECT_GT(report.hits + report.misses, 0U);
        EXPECT_EQ(report.n_moves > 0, divide);
        EXPECT_EQ(report.moved_bytes > 0, divide);
        EXPECT_EQ(report.hits > 0, divide) << "whole layers are there or not";
    }
}

}  // namespace
}  // namespace ballast::test
