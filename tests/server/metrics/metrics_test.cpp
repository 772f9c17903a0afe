// SPDX-License-Identifier: MIT
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "server/metrics/engine_metrics.h"
#include "server/metrics/http_metrics.h"
#include "server/metrics/registry.h"
#include "server/metrics/request_metrics.h"

namespace ballast::metrics {
namespace {

struct Everything {
    SystemClock clock;
    Registry registry{clock};
    EngineMetrics engine{registry};
    HttpMetrics http{registry};
    RequestMetrics requests{registry};
};

/// Value of a series by its exact text, or −1.
double value_of(const std::string& text, const std::string& series) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(series + " ")) {
            return std::stod(line.substr(series.size() + 1));
        }
    }
    return -1;
}

TEST(Metrics, KnownSeriesAreThereFromTheStart) {
    Everything all;
    const std::string text = all.registry.scrape();
    for (const char* series :
         {"ballast_requests_total{endpoint=\"chat_completions\",outcome=\"stop\"}",
          "ballast_requests_total{endpoint=\"completions\",outcome=\"rejected\"}",
          "ballast_jobs_total{outcome=\"cancelled\"}",
          "ballast_http_requests_total{code=\"200\",endpoint=\"/v1/chat/completions\"}",
          "ballast_time_to_first_token_seconds_count",
          "ballast_inter_token_seconds_count",
          "ballast_queue_seconds_count",
          "ballast_step_seconds_count",
          "ballast_prompt_tokens_total",
          "ballast_generated_tokens_total",
          "ballast_queue_depth",
          "ballast_running_sequences",
          "ballast_kv_blocks_used",
          "ballast_kv_blocks"}) {
        EXPECT_EQ(value_of(text, series), 0) << series;
    }
    EXPECT_NE(text.find("ballast_build_info{"), std::string::npos);
    EXPECT_GT(value_of(text, "ballast_start_time_seconds"), 1.6e9);
}

TEST(Metrics, CountWhatHappens) {
    Everything all;
    all.requests.count(Endpoint::kChatCompletions, Outcome::kLength);
    all.requests.count(Endpoint::kCompletions, Outcome::kRejected);
    all.engine.on_step(64, 2, std::chrono::milliseconds(30));
    all.engine.on_job_started(std::chrono::milliseconds(2));
    all.engine.on_first_token(std::chrono::milliseconds(300));
    all.engine.on_inter_token(std::chrono::milliseconds(20));
    runtime::JobStats stats;
    stats.prompt_tokens = 64;
    stats.completion_tokens = 2;
    stats.cached_prompt_tokens = 5;
    all.engine.on_job_ended("length", stats);
    all.engine.on_load(3, 10, 40);
    all.http.on_reply("/v1/models", 404, std::chrono::milliseconds(1));
    all.registry.set_queue_depth_source([] { return 5.0; });
    const std::string text = all.registry.scrape();
    const std::map<std::string, double> expected = {
        {"ballast_requests_total{endpoint=\"chat_completions\",outcome=\"length\"}", 1},
        {"ballast_requests_total{endpoint=\"completions\",outcome=\"rejected\"}", 1},
        {"ballast_requests_total{endpoint=\"completions\",outcome=\"length\"}", 0},
        {"ballast_prompt_tokens_total", 64},
        {"ballast_generated_tokens_total", 2},
        {"ballast_prompt_tokens_cached_total", 5},
        {"ballast_jobs_total{outcome=\"length\"}", 1},
        {"ballast_time_to_first_token_seconds_bucket{le=\"0.25\"}", 0},
        {"ballast_time_to_first_token_seconds_bucket{le=\"0.5\"}", 1},
        {"ballast_inter_token_seconds_bucket{le=\"0.02\"}", 1},
        {"ballast_queue_seconds_count", 1},
        {"ballast_step_seconds_bucket{le=\"0.05\"}", 1},
        {"ballast_running_sequences", 3},
        {"ballast_kv_blocks_used", 10},
        {"ballast_kv_blocks", 40},
        {"ballast_queue_depth", 5},
        {"ballast_http_requests_total{code=\"404\",endpoint=\"/v1/models\"}", 1},
    };
    for (const auto& [series, value] : expected) {
        EXPECT_EQ(value_of(text, series), value) << series;
    }
}

/// The rules of a scrape linter over the whole text.
TEST(Metrics, FollowTheRulesForNames) {
    Everything all;
    all.http.on_reply("other", 404, {});
    std::istringstream lines(all.registry.scrape());
    std::set<std::string> families;
    std::string family;
    std::string type;
    bool has_help = false;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# HELP ")) {
            has_help = line.size() > line.find(' ', 7) + 3;
            continue;
        }
        if (line.starts_with("# TYPE ")) {
            const std::size_t space = line.find(' ', 7);
            family = line.substr(7, space - 7);
            type = line.substr(space + 1);
            EXPECT_TRUE(has_help) << family;
            EXPECT_TRUE(families.insert(family).second) << family << " twice";
            EXPECT_TRUE(family.starts_with("ballast_")) << family;
            EXPECT_EQ(family.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789"),
                      std::string::npos)
                << family;
            EXPECT_EQ(family.ends_with("_total"), type == "counter") << family;
            EXPECT_TRUE(type == "counter" || type == "gauge" || type == "histogram") << family;
            has_help = false;
            continue;
        }
        EXPECT_TRUE(line.starts_with(family)) << line;
    }
    EXPECT_GT(families.size(), 15U);
}

}  // namespace
}  // namespace ballast::metrics
