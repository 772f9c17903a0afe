// SPDX-License-Identifier: MIT
// The device's share changes in parts while streams run: only what must go goes, what comes back
// comes beside the steps, and not a letter of the texts changes where groups are whole.
#include <algorithm>

#include "engine/base/rng.h"
#include "tests/engine/runtime/live_run.h"

namespace ballast::test {
namespace {

constexpr std::uint64_t kBudget = kLiveBudget;
constexpr int kGroups = 33;

TinyModelOptions sixteen_layers() {
    return {.n_layers = 16, .type = quant::QuantType::kQ8_0};
}

int groups_at(const LiveOutcome& outcome, int ms) {
    return outcome.reports.at(static_cast<std::size_t>(ms / 10)).residency->n_on_device();
}

std::uint64_t bytes_at(const LiveOutcome& outcome, int ms) {
    return outcome.reports.at(static_cast<std::size_t>(ms / 10)).self_bytes;
}

std::uint64_t evicted_by_others(const LiveOutcome& outcome) {
    return outcome.last.evicted_bytes[static_cast<std::size_t>(runtime::LoadCause::kMemory)];
}

/// Of the whole model.
std::uint64_t whole_share(const TinyFixture& fixture) {
    return play(fixture, {.n_tokens = 5}).last.self_bytes;
}

TEST(LiveParts, OnlyWhatMustGoGoesAndComesBack) {
    const TinyFixture fixture(sixteen_layers());
    LivePlay played;
    const std::uint64_t all = whole_share(fixture);
    int n_fewest = kGroups;
    const std::vector<std::string> texts = undisturbed(fixture, played);
    for (const double share : {0.9, 0.75, 0.6}) {
        SCOPED_TRACE(share);
        const auto left = static_cast<std::uint64_t>(share * static_cast<double>(all));
        played.script = first_sample() + sample_line(500, kBudget - left) + sample_line(1200, 0);
        const LiveOutcome outcome = play(fixture, played);
        expect_undisturbed(outcome, texts);
        EXPECT_EQ(groups_at(outcome, 490), kGroups);
        EXPECT_EQ(bytes_at(outcome, 490), all);
        // The next step keeps to it, and the device goes on with the rest.
        EXPECT_LE(bytes_at(outcome, 540), left);
        EXPECT_GT(bytes_at(outcome, 540), left / 2);
        EXPECT_GT(groups_at(outcome, 540), 0);
        EXPECT_LT(groups_at(outcome, 540), n_fewest);
        n_fewest = groups_at(outcome, 540);
        EXPECT_EQ(evicted_by_others(outcome), all - bytes_at(outcome, 540));
        EXPECT_EQ(groups_at(outcome, 1150), n_fewest);
        EXPECT_EQ(outcome.last.residency->n_on_device(), kGroups);
        EXPECT_EQ(outcome.last.self_bytes, all);
        EXPECT_EQ(outcome.last.n_refused, 0U);
        EXPECT_EQ(outcome.last.n_moves, 2U);
    }
}

TEST(LiveParts, TheDecisionLogSaysWhatMovedInOrder) {
    const TinyFixture fixture(sixteen_layers());
    LivePlay played;
    const std::uint64_t left = whole_share(fixture) * 3 / 4;
    played.script = first_sample() + sample_line(500, kBudget - left, ",\"process\":\"game\"") +
                    sample_line(1200, 0);
    const LiveOutcome outcome = play(fixture, played);
    ASSERT_EQ(outcome.decisions.size(), 3U);
    EXPECT_EQ(outcome.decisions[1].cause, "memory");
    const std::string& gone = outcome.decisions[1].text;
    EXPECT_NE(gone.find("wanted by game; "), std::string::npos) << gone;
    EXPECT_NE(gone.find(" MiB of the device are given back in "), std::string::npos) << gone;
    EXPECT_NE(gone.find("weights of the attention of layer 0, "), std::string::npos) << gone;
    EXPECT_NE(gone.find("; keys and values of "), std::string::npos) << gone;
    EXPECT_EQ(outcome.decisions[2].cause, "room");
    const std::string& come = outcome.decisions[2].text;
    EXPECT_NE(come.find("came beside the steps, of the attention of layer 0, "), std::string::npos)
        << come;
    EXPECT_NE(come.find("33 of 33 groups on the device"), std::string::npos) << come;
}

TEST(LiveParts, WhatGrowsArrivesInPartsWhileStreamsRun) {
    const TinyFixture fixture(sixteen_layers());
    LivePlay played;
    played.n_tokens = 150;
    played.token_time = std::chrono::milliseconds(5);
    // An upload takes some hundred steps.
    played.pace = {.link_gbps = 0.01};
    played.script = first_sample() + sample_line(300, kBudget) + sample_line(600, 0);
    const LiveOutcome outcome = play(fixture, played);
    expect_undisturbed(outcome, undisturbed(fixture, played));
    std::vector<int> sizes;
    for (std::size_t i = 100; i < outcome.reports.size(); ++i) {
        sizes.push_back(outcome.reports[i].residency->n_on_device());
    }
    EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    EXPECT_EQ(sizes.front(), 0);
    EXPECT_EQ(sizes.back(), kGroups);
    EXPECT_GE(sizes.size(), 3U) << "it came all at once";
}

TEST(LiveParts, PressureThatReturnsCancelsWhatHasNotArrived) {
    const TinyFixture fixture(sixteen_layers());
    LivePlay played;
    played.pace = {.link_gbps = 0.01};
    const std::vector<std::string> texts = undisturbed(fixture, played);
    const std::uint64_t all = whole_share(fixture);
    int n_cancelled = 0;
    for (int t_ms = 1140; t_ms <= 1600; t_ms += 40) {
        SCOPED_TRACE(t_ms);
        played.script = first_sample() + sample_line(300, kBudget) + sample_line(600, 0) +
                        sample_line(t_ms, kBudget - all / 2);
        const LiveOutcome outcome = play(fixture, played);
        expect_undisturbed(outcome, texts);
        EXPECT_EQ(outcome.last.n_refused, 0U);
        for (const scheduler::Decision& decision : outcome.decisions) {
            n_cancelled +=
                decision.text.find("what had not arrived yet") != std::string::npos ? 1 : 0;
        }
    }
    EXPECT_GE(n_cancelled, 1);
}

TEST(LiveParts, SquareWavesMoveABoundedNumberOfBytes) {
    const TinyFixture fixture(sixteen_layers());
    const std::uint64_t all = whole_share(fixture);
    LivePlay played;
    played.token_time = std::chrono::milliseconds(40);  // 12 seconds in all
    const std::vector<std::string> texts = undisturbed(fixture, played);
    for (const int period_ms : {200, 400, 1000, 2000}) {
        SCOPED_TRACE(period_ms);
        played.script = first_sample();
        for (int t_ms = 200; t_ms < 11000; t_ms += period_ms) {
            played.script +=
                sample_line(t_ms, kBudget - all / 2) + sample_line(t_ms + period_ms / 2, 0);
        }
        const LiveOutcome outcome = play(fixture, played);
        expect_undisturbed(outcome, texts);
        EXPECT_EQ(outcome.last.n_refused, 0U);
        // Half goes at first. What returns is at most the bucket's: two budgets and one more in ten
        // seconds; and the back-off allows less.
        EXPECT_GE(evicted_by_others(outcome), all / 3);
        EXPECT_LE(evicted_by_others(outcome), period_ms <= 1000 ? all : 4 * all);
        EXPECT_LE(outcome.last.n_moves, period_ms <= 1000 ? 3U : 12U);
    }
}

std::string busy(double share) {
    return ",\"device_busy\":" + std::to_string(share);
}

TEST(LiveParts, TenScriptsDisturbNobody) {
    const TinyFixture fixture(sixteen_layers());
    const std::uint64_t all = whole_share(fixture);
    const auto left = [&](double share) {
        return kBudget - static_cast<std::uint64_t>(share * static_cast<double>(all));
    };
    std::string stairs_down = first_sample();
    std::string stairs_up = first_sample(left(0.4));
    std::string sawtooth = first_sample();
    std::string busy_wave = first_sample();
    for (int i = 0; i < 10; ++i) {
        stairs_down += sample_line(200 + 150 * i, left(1.0 - 0.1 * i));
        stairs_up += sample_line(200 + 150 * i, left(0.4 + 0.06 * i));
        sawtooth += sample_line(200 + 250 * i, left(i % 2 == 0 ? 0.5 : 0.8));
        busy_wave += sample_line(200 + 250 * i, 0, busy(i % 2 == 0 ? 1.0 : 0.0));
    }
    const std::vector<std::string> scripts = {
        first_sample() + sample_line(500, left(0.7)),
        first_sample() + sample_line(500, left(0.9)) + sample_line(600, left(0.6)),
        first_sample(left(0.5)) + sample_line(1000, left(0.8)) + sample_line(1800, left(0.3)),
        first_sample(kBudget) + sample_line(600, left(0.5)) + sample_line(1500, 0),
        first_sample() + sample_line(500, left(0.02)) + sample_line(800, left(0.6)),
        first_sample() + sample_line(500, left(0.6)) +
            sample_line(1000, left(0.6), ",\"event\":\"device_lost\""),
        first_sample() + sample_line(500, left(0.6)) +
            sample_line(800, left(0.6), ",\"event\":\"suspend\"") +
            sample_line(1500, left(0.7), ",\"event\":\"resume\""),
        stairs_down,
        stairs_up,
        sawtooth,
        busy_wave,
        first_sample() + sample_line(500, left(0.6), busy(1.0)) + sample_line(1500, 0, busy(0.0))};
    LivePlay played;
    const std::vector<std::string> texts = undisturbed(fixture, played);
    for (std::size_t i = 0; i < scripts.size(); ++i) {
        SCOPED_TRACE(scripts[i]);
        played.script = scripts[i];
        played.divide_groups = false;
        const LiveOutcome outcome = play(fixture, played);
        expect_undisturbed(outcome, texts);
        EXPECT_EQ(outcome.last.n_refused, 0U);
        EXPECT_GT(outcome.most_bytes, 0U);
        played.divide_groups = true;
        const LiveOutcome divided = play(fixture, played);
        EXPECT_FALSE(divided.over_budget);
        EXPECT_FALSE(divided.wrong_books);
        EXPECT_EQ(divided.last.n_refused, 0U);
        for (std::size_t job = 0; job < divided.texts.size(); ++job) {
            EXPECT_EQ(divided.errors[job], "");
            EXPECT_FALSE(divided.texts[job].empty());
        }
    }
}

/// Whatever a share of the device is, its memory is kept to and accounted for, and no job fails.
void expect_in_order(const LiveOutcome& outcome) {
    EXPECT_EQ(outcome.last.n_refused, 0U);
    EXPECT_FALSE(outcome.over_budget);
    EXPECT_FALSE(outcome.wrong_books);
    for (std::size_t job = 0; job < outcome.texts.size(); ++job) {
        EXPECT_EQ(outcome.errors[job], "");
        EXPECT_FALSE(outcome.texts[job].empty());
    }
    for (const runtime::LoadReport& report : outcome.reports) {
        EXPECT_FALSE(report.degraded.has_value()) << report.degraded_text;
    }
}

/// Others take and leave any amount at any time.
std::string random_script(std::uint64_t seed, std::uint64_t all) {
    Rng rng(seed);
    const auto others = [&] {
        const double share = 1.2 * rng.uniform();
        return kBudget - static_cast<std::uint64_t>(share * static_cast<double>(all));
    };
    std::string script = first_sample(others());
    int t_ms = 0;
    for (int i = 0; i < 14; ++i) {
        t_ms += 10 + static_cast<int>(rng.below(rng.below(3) == 0 ? 900 : 120));
        script += sample_line(t_ms, others(), rng.below(6) == 0 ? busy(rng.uniform()) : "");
    }
    return script;
}

TEST(LiveParts, RandomScriptsDisturbNobody) {
    const TinyFixture fixture(sixteen_layers());
    const std::uint64_t all = whole_share(fixture);
    LivePlay played;
    const std::vector<std::string> texts = undisturbed(fixture, played);
    int n_between = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(seed);
        played.script = random_script(seed, all);
        played.divide_groups = seed % 3 == 0;
        const double link_gbps = seed % 2 == 0 ? 0.0 : 0.05;
        played.pace = {.link_gbps = link_gbps};
        played.faults = {.seed = seed, .delay_max = std::chrono::microseconds(seed % 4 * 10)};
        const LiveOutcome outcome = play(fixture, played);
        expect_in_order(outcome);
        if (!played.divide_groups) {
            expect_undisturbed(outcome, texts);
        }
        for (const runtime::LoadReport& report : outcome.reports) {
            const int n = report.residency->n_on_device();
            n_between += n > 0 && n < kGroups ? 1 : 0;
        }
    }
    EXPECT_GE(n_between, 500);
}

TEST(LiveParts, RandomScriptsDivideTheHeadsOfALayer) {
    const TinyFixture fixture(
        {.n_layers = 3, .n_heads = 8, .n_kv_heads = 8, .type = quant::QuantType::kQ8_0});
    const std::uint64_t all = whole_share(fixture);
    LivePlay played;
    played.n_tokens = 50;
    played.divide_groups = true;
    int n_divided = 0;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(seed);
        played.script = random_script(seed, all);
        const LiveOutcome outcome = play(fixture, played);
        expect_in_order(outcome);
        for (const runtime::LoadReport& report : outcome.reports) {
            for (std::size_t i = 0; i < report.residency->groups.size(); ++i) {
                const scheduler::TensorGroup& group = fixture.model().model->catalog().groups[i];
                const int n = report.residency->groups[i].resident;
                n_divided +=
                    group.kind == scheduler::GroupKind::kAttention && n > 0 && n < group.parts ? 1
                                                                                               : 0;
            }
        }
    }
    EXPECT_GE(n_divided, 20);
}

TEST(LiveParts, RandomScriptsDisturbNoExperts) {
    const TinyFixture fixture({.n_layers = 6, .n_experts = 8, .type = quant::QuantType::kQ8_0});
    const std::uint64_t all = whole_share(fixture);
    LivePlay played;
    played.n_tokens = 60;
    played.divide_groups = true;
    int n_between = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        played.script = random_script(seed, all);
        const LiveOutcome outcome = play(fixture, played);
        expect_in_order(outcome);
        for (const runtime::LoadReport& report : outcome.reports) {
            const int n = report.residency->n_on_device();
            n_between += n > 0 && n < 13 ? 1 : 0;
        }
    }
    EXPECT_GE(n_between, 50);
}

}  // namespace
}  // namespace ballast::test
