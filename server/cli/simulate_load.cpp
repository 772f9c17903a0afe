// SPDX-License-Identifier: MIT
// Reads the trace, runs the rules, prints. Every figure is simulated.
#include "server/cli/simulate_load.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scheduler/load/sample_script.h"
#include "scheduler/sim/sim_session.h"
#include "server/cli/read_text.h"
#include "server/cli/report.h"

namespace ballast::cli {

namespace {

using scheduler::LoadRule;
using scheduler::LoadTrace;
using scheduler::SessionResult;

constexpr std::size_t kTraceBytesMax = 256U << 20U;
constexpr Nanoseconds kTraceLongest = std::chrono::hours(1);
constexpr double kGiga = 1e9;
// Plans are made for each, and kept.
constexpr std::size_t kLoadsMax = 300;

struct RuleRun {
    LoadRule rule = LoadRule::kOurs;
    SessionResult result = {};
};

/// All runs, and what they are measured by.
struct LoadRuns {
    LoadTrace trace = {};
    std::vector<RuleRun> shown = {};
    double ideal_tokens = 0.0;
    double static_tokens = 0.0;
};

Result<std::vector<LoadRule>> rules_named(const std::string& name) {
    std::string keys = "all";
    for (const LoadRule rule : scheduler::kLoadRules) {
        if (name == scheduler::load_rule_key(rule)) {
            return std::vector<LoadRule>{rule};
        }
        keys += fmt::format(", {}", scheduler::load_rule_key(rule));
    }
    if (name == "all") {
        return std::vector<LoadRule>(scheduler::kLoadRules.begin(), scheduler::kLoadRules.end());
    }
    return fail(
        ErrorCode::kInvalidRequest,
        fmt::format(
            "--policy is \"{}\"; possible with --load-trace are {}.", printable(name, 64), keys));
}

Result<LoadTrace> read_trace(const std::string& path) {
    const auto text = read_text_file(path, kTraceBytesMax);
    if (!text) {
        return tl::unexpected(text.error());
    }
    auto samples = scheduler::parse_sample_script(*text);
    if (!samples) {
        return fail(samples.error().code,
                    fmt::format("{}: {}", printable(path, 256), samples.error().message));
    }
    if (samples->empty() || samples->back().time <= Nanoseconds{0}) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("{} covers no time: the t_ms of its last line, which may hold "
                                "nothing else, is where it ends.",
                                printable(path, 256)));
    }
    if (samples->back().time > kTraceLongest) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("{} ends after {:.0f} s, but may cover an hour at most; cut it.",
                                printable(path, 256),
                                to_seconds(samples->back().time)));
    }
    const Nanoseconds end = samples->back().time;
    return LoadTrace{.name = std::filesystem::path(path).filename().string(),
                     .duration = end,
                     .samples = std::move(*samples)};
}

LoadRuns run_rules(const scheduler::PlanQuestion& question,
                   const scheduler::PlanAnswer& answer,
                   const std::vector<LoadRule>& rules,
                   LoadTrace trace) {
    scheduler::SimSession session(question, answer);
    LoadRuns runs{.trace = std::move(trace)};
    const auto is_shown = [&](LoadRule rule) {
        return std::find(rules.begin(), rules.end(), rule) != rules.end();
    };
    for (const LoadRule rule : scheduler::kLoadRules) {
        const bool measures = rule == LoadRule::kIdeal || rule == LoadRule::kStatic;
        if (!measures && !is_shown(rule)) {
            continue;
        }
        SessionResult result = session.run(rule, {.trace = runs.trace});
        if (rule == LoadRule::kIdeal) {
            runs.ideal_tokens = result.tokens;
        } else if (rule == LoadRule::kStatic) {
            runs.static_tokens = result.tokens;
        }
        if (is_shown(rule)) {
            runs.shown.push_back({rule, std::move(result)});
        }
    }
    return runs;
}

double share(double part, double of) {
    return of > 0.0 ? part / of : 0.0;
}

void print_table(const scheduler::PlanQuestion& question,
                 const scheduler::PlanAnswer& answer,
                 const LoadRuns& runs) {
    const double seconds = to_seconds(runs.trace.duration);
    fmt::print("{} on {} under {} ({:.0f} s), simulated:\ngeneration with {} in the cache\n\n",
               printable(question.catalog->name, 80),
               printable(question.hardware.name, 80),
               printable(runs.trace.name, 80),
               seconds,
               answer.depth);
    fmt::print("{:<25}{:>8}{:>9}{:>8}{:>9}{:>10}{:>7}{:>10}{:>7}\n",
               "",
               "",
               "",
               "of the",
               "of best",
               "uploaded",
               "",
               "over room",
               "lost");
    fmt::print("{:<25}{:>8}{:>9}{:>8}{:>9}{:>10}{:>7}{:>10}{:>7}\n",
               "rule",
               "tokens",
               "a second",
               "ideal",
               "static",
               "GB",
               "plans",
               "s at most",
               "req.");
    for (const RuleRun& run : runs.shown) {
        const SessionResult& result = run.result;
        fmt::print("{:<25}{:>8.0f}{:>9.2f}{:>7.1f}%{:>8.1f}%",
                   scheduler::load_rule_name(run.rule),
                   result.tokens,
                   result.tokens / seconds,
                   100.0 * share(result.tokens, runs.ideal_tokens),
                   100.0 * share(result.tokens, runs.static_tokens));
        if (run.rule != LoadRule::kIdeal) {
            fmt::print("{:>10.1f}{:>7}{:>10.3f}{:>7}",
                       result.uploaded_bytes / kGiga,
                       result.n_plans,
                       to_seconds(result.over_room),
                       result.n_requests_lost);
        }
        fmt::print("\n");
    }
}

nlohmann::json timeline_json(const SessionResult& result) {
    nlohmann::json points = nlohmann::json::array();
    Nanoseconds begin{0};
    for (const scheduler::TimelinePoint& point : result.timeline) {
        const double seconds = to_seconds(point.time - std::exchange(begin, point.time));
        points.push_back(
            {{"t_ms", std::chrono::duration_cast<std::chrono::milliseconds>(point.time).count()},
             {"tokens_per_second", point.tokens / seconds},
             {"room_bytes", point.room_bytes},
             {"resident_bytes", point.resident_bytes},
             {"level", scheduler::load_level_name(point.level)}});
    }
    return points;
}

void print_json(const scheduler::PlanQuestion& question,
                const scheduler::PlanAnswer& answer,
                const LoadRuns& runs) {
    nlohmann::json rows = nlohmann::json::array();
    for (const RuleRun& run : runs.shown) {
        const SessionResult& result = run.result;
        rows.push_back({{"rule", scheduler::load_rule_key(run.rule)},
                        {"tokens", result.tokens},
                        {"ideal_fraction", share(result.tokens, runs.ideal_tokens)},
                        {"static_fraction", share(result.tokens, runs.static_tokens)},
                        {"uploaded_bytes", result.uploaded_bytes},
                        {"plans", result.n_plans},
                        {"over_room_seconds", to_seconds(result.over_room)},
                        {"requests_lost", result.n_requests_lost},
                        {"steps_redone", result.n_steps_redone},
                        {"timeline", timeline_json(result)}});
    }
    const nlohmann::json all = {{"simulated", true},
                                {"model", question.catalog->name},
                                {"hardware", question.hardware.name},
                                {"load_trace", runs.trace.name},
                                {"seconds", to_seconds(runs.trace.duration)},
                                {"depth", answer.depth},
                                {"device_bytes", answer.memory_bytes},
                                {"rules", std::move(rows)}};
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// What a script may say, but this machine or the session cannot follow.
Status check_trace(const LoadTrace& trace,
                   const scheduler::PlanQuestion& question,
                   const scheduler::PlanAnswer& answer) {
    const auto wrong = [&](Nanoseconds time, const std::string& what) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("{}, at t_ms {:.10g}: {}",
                                printable(trace.name, 256),
                                1e3 * to_seconds(time),
                                what));
    };
    const scheduler::DeviceMemory memory = scheduler::device_memory(
        trace.samples, answer.memory_bytes, question.hardware.device_memory_gb * kGiga);
    std::set<std::tuple<double, double, double>> loads;
    for (const scheduler::LoadSample& sample : trace.samples) {
        if (sample.event != scheduler::LoadEvent::kNone && sample.time <= Nanoseconds{0}) {
            return wrong(sample.time,
                         "an event needs something before it; begin with another line.");
        }
        if (sample.device_total_bytes != trace.samples.front().device_total_bytes) {
            return wrong(sample.time,
                         "device_total_bytes must be on the first line, and the same throughout.");
        }
        if (sample.others_bytes > memory.total_bytes) {
            return wrong(sample.time,
                         fmt::format("others_bytes is {}, but the device has {} bytes.",
                                     sample.others_bytes,
                                     memory.total_bytes));
        }
        loads.emplace(sample.device_busy, sample.link_busy, sample.cpu_psi);
        if (loads.size() > kLoadsMax) {
            return wrong(sample.time,
                         fmt::format("that is more than {} different loads of device, link and "
                                     "CPU; round them.",
                                     kLoadsMax));
        }
    }
    return {};
}

}  // namespace

Status simulate_load(const SimulateArgs& args,
                     const scheduler::PlanQuestion& question,
                     const scheduler::PlanAnswer& answer) {
    BALLAST_TRY(const std::vector<LoadRule> rules, rules_named(args.policy));
    if (!question.hardware.has_device || answer.memory_bytes <= 0.0 ||
        question.hardware.unified_memory) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("--load-trace needs a GPU with memory of its own that may be used; "
                                "{} with this --vram-budget has none.",
                                printable(question.hardware.name, 80)));
    }
    BALLAST_TRY(LoadTrace trace, read_trace(args.load_trace));
    BALLAST_TRY_STATUS(check_trace(trace, question, answer));
    const LoadRuns runs = run_rules(question, answer, rules, std::move(trace));
    if (args.asked.json) {
        print_json(question, answer, runs);
    } else {
        print_table(question, answer, runs);
    }
    return {};
}

}  // namespace ballast::cli
