// SPDX-License-Identifier: MIT
// Tables of one plan.
#include "server/cli/plan_report.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "server/cli/report.h"

namespace ballast::cli {

namespace {

using scheduler::ClassBytes;
using scheduler::GroupKind;
using scheduler::PlanAnswer;
using scheduler::PlanQuestion;
using scheduler::Verdict;

struct ClassName {
    GroupKind kind;
    const char* name;
    const char* key;
};
constexpr std::array<ClassName, scheduler::kPlacedClasses> kClasses = {{
    {GroupKind::kAttention, "attention", "attention"},
    {GroupKind::kFeedForward, "feed-forward", "feed_forward"},
    {GroupKind::kExperts, "experts", "experts"},
    {GroupKind::kHead, "output head", "head"},
}};

std::string size(double bytes) {
    return bytes <= 0.0 ? "-" : format_bytes(static_cast<std::uint64_t>(bytes));
}

/// The text in lines that a narrow terminal shows whole, broken at spaces.
std::string wrapped(const std::string& text) {
    constexpr std::size_t kColumns = 96;
    std::string out;
    std::size_t column = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(' ', begin), text.size());
        const std::size_t length = end - begin;
        if (column > 0) {
            const bool fits = column + 1 + length <= kColumns;
            out += fits ? ' ' : '\n';
            column = fits ? column + 1 : 0;
        }
        out += text.substr(begin, length);
        column += length;
        begin = end + 1;
    }
    return out;
}

void print_bytes(const char* name, const ClassBytes& bytes) {
    if (bytes.device + bytes.streamed + bytes.cpu > 0.0) {
        fmt::print("  {:<26}{:>12}{:>12}{:>12}\n",
                   name,
                   size(bytes.device),
                   size(bytes.streamed),
                   size(bytes.cpu));
    }
}

void print_where(const PlanQuestion& question, const PlanAnswer& answer) {
    fmt::print("  {:<26}{:>12}{:>12}{:>12}\n", "where the weights go", "GPU", "streamed", "CPU");
    for (const ClassName& c : kClasses) {
        print_bytes(c.name, answer.bytes[static_cast<std::size_t>(c.kind)]);
    }
    print_bytes("token embedding", {.cpu = static_cast<double>(question.catalog->embedding_bytes)});
    print_bytes("KV cache", answer.kv);
    fmt::print("\n");
}

double per_second(double seconds, double tokens = 1.0) {
    return seconds > 0.0 ? tokens / seconds : 0.0;
}

void print_speed(const char* name, double decode, double prefill, int prefill_tokens) {
    fmt::print("  {:<26}{:>8.1f} t/s{:>9.1f} ms{:>10.0f} t/s\n",
               name,
               per_second(decode),
               1e3 * decode,
               per_second(prefill, prefill_tokens));
}

void print_speeds(const PlanAnswer& answer) {
    const scheduler::ForecastPlacement& plan = answer.result.plan;
    fmt::print("  {:<26}{:>12}{:>12}{:>14}\n",
               "predicted speed",
               "decode",
               "a token",
               fmt::format("prefill {}", answer.prefill_tokens));
    const auto line = [&](const char* name, double decode, double prefill) {
        print_speed(name, decode, prefill, answer.prefill_tokens);
    };
    line("this plan", plan.decode_seconds, plan.prefill_seconds);
    for (const scheduler::PolicyForecast& policy : answer.result.policies) {
        if (policy.best) {
            line(scheduler::policy_name(policy.policy),
                 policy.best->decode_seconds,
                 policy.best->prefill_seconds);
        }
    }
    line("the hardware's limit", answer.decode_limit_seconds, answer.prefill_limit_seconds);
    fmt::print(
        "\n  predicted limit: {:.0f}% of it in decode, {:.0f}% in prefill; of the divisions the "
        "planner\n  weighs, the fastest is at most {:.1f}% faster than this one.\n",
        100.0 * answer.decode_limit_seconds / plan.decode_seconds,
        100.0 * answer.prefill_limit_seconds / plan.prefill_seconds,
        100.0 * answer.result.gap);
}

nlohmann::json bytes_json(const ClassBytes& bytes) {
    return {{"device", bytes.device}, {"streamed", bytes.streamed}, {"cpu", bytes.cpu}};
}

nlohmann::json forecast_json(const scheduler::ForecastPlacement& forecast) {
    return {{"decode_seconds", forecast.decode_seconds},
            {"prefill_seconds", forecast.prefill_seconds}};
}

}  // namespace

void print_plan(const PlanQuestion& question, const PlanAnswer& answer) {
    const scheduler::TensorCatalog& catalog = *question.catalog;
    const scheduler::HardwareProfile& hardware = question.hardware;
    fmt::print("{}\n",
               wrapped(fmt::format("{} on {} ({})",
                                   printable(catalog.name, 80),
                                   printable(hardware.name, 80),
                                   printable(hardware.description, 120))));
    fmt::print(
        "{} of weights; KV cache {} for {} tokens; GPU memory {}; RAM {:.0f} GB, {} used\n\n",
        size(static_cast<double>(catalog.total_bytes())),
        size(static_cast<double>(catalog.kv_bytes_per_token()) * question.context),
        question.context,
        size(answer.memory_bytes),
        hardware.ram_gb,
        size(answer.host_bytes));
    fmt::print("{}\n\n", wrapped(answer.sentence));
    if (answer.verdict != Verdict::kCannotRun) {
        print_where(question, answer);
        print_speeds(answer);
    }
    fmt::print("  A forecast at depth {}, from figures that are {}.\n",
               answer.depth,
               hardware.key.empty() ? "assumed, not measured" : "measured on this machine");
}

std::string plan_json(const PlanQuestion& question, const PlanAnswer& answer) {
    nlohmann::json bytes;
    for (const ClassName& c : kClasses) {
        bytes[c.key] = bytes_json(answer.bytes[static_cast<std::size_t>(c.kind)]);
    }
    bytes["embedding"] =
        bytes_json({.cpu = static_cast<double>(question.catalog->embedding_bytes)});
    bytes["kv"] = bytes_json(answer.kv);
    nlohmann::json policies = nlohmann::json::array();
    for (const scheduler::PolicyForecast& policy : answer.result.policies) {
        nlohmann::json entry = {{"policy", scheduler::policy_name(policy.policy)}};
        if (policy.best) {
            entry.update(forecast_json(*policy.best));
        }
        policies.push_back(std::move(entry));
    }
    nlohmann::json groups = nlohmann::json::array();
    const scheduler::Placement& placement = answer.result.plan.placement;
    for (std::size_t i = 0; i < placement.groups.size(); ++i) {
        const scheduler::TensorGroup& group = question.catalog->groups[i];
        const scheduler::GroupPlacement& placed = placement.groups[i];
        groups.push_back({{"layer", group.layer},
                          {"class", kClasses[static_cast<std::size_t>(group.kind)].key},
                          {"parts", group.parts},
                          {"resident", placed.resident},
                          {"streamed", placed.streamed},
                          {"prefill_streamed", placed.prefill_streamed},
                          {"shared_on_device", placed.shared_on_device}});
    }
    const bool runs = answer.verdict != Verdict::kCannotRun;
    const scheduler::ForecastPlacement& plan = answer.result.plan;
    const nlohmann::json json = {
        {"model", question.catalog->name},
        {"hardware", question.hardware.name},
        {"measured", !question.hardware.key.empty()},
        {"verdict", scheduler::verdict_name(answer.verdict)},
        {"sentence", answer.sentence},
        {"runs", runs},
        {"context", question.context},
        {"depth", answer.depth},
        {"prefill_tokens", answer.prefill_tokens},
        {"device_memory_bytes", answer.memory_bytes},
        {"host_bytes", answer.host_bytes},
        {"decode_seconds", plan.decode_seconds},
        {"prefill_seconds", plan.prefill_seconds},
        {"decode_limit_seconds", answer.decode_limit_seconds},
        {"prefill_limit_seconds", answer.prefill_limit_seconds},
        {"predicted_limit", answer.decode_limit_seconds / plan.decode_seconds},
        {"gap", answer.result.gap},
        {"bytes", std::move(bytes)},
        {"policies", std::move(policies)},
        {"groups", std::move(groups)}};
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ballast::cli
