// SPDX-License-Identifier: MIT
// Spans as complete events.
#include "scheduler/sim/trace.h"

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ballast::scheduler {

namespace {

using Json = nlohmann::json;

constexpr std::array<const char*, 3> kLaneNames = {"device", "CPU", "link"};

const char* kind_name(GroupKind kind) {
    switch (kind) {
        case GroupKind::kAttention:
            return "attention";
        case GroupKind::kFeedForward:
            return "feed-forward";
        case GroupKind::kExperts:
            return "experts";
        case GroupKind::kHead:
            return "head";
    }
    return "";
}

double microseconds(Nanoseconds time) {
    return static_cast<double>(time.count()) / 1e3;
}

Json named(const char* what, int thread, const std::string& name) {
    return {{"ph", "M"}, {"pid", 1}, {"tid", thread}, {"name", what}, {"args", {{"name", name}}}};
}

std::string name_of(const TensorCatalog& catalog, const TraceSpan& span) {
    const auto name = [&](int number) {
        const TensorGroup& group = catalog.groups[static_cast<std::size_t>(number)];
        return group.kind == GroupKind::kHead
                   ? std::string(kind_name(group.kind))
                   : fmt::format("{} {}", kind_name(group.kind), group.layer);
    };
    if (span.first_group < 0) {
        return span.what;
    }
    return span.n_groups == 1 ? name(span.first_group)
                              : fmt::format("{} to {}",
                                            name(span.first_group),
                                            name(span.first_group + span.n_groups - 1));
}

}  // namespace

std::string trace_json(const TensorCatalog& catalog,
                       std::span<const TraceSpan> spans,
                       const std::string& title,
                       bool is_simulated) {
    Json events = Json::array();
    events.push_back(named("process_name", 0, title));
    for (std::size_t lane = 0; lane < kLaneNames.size(); ++lane) {
        events.push_back(named("thread_name", static_cast<int>(lane), kLaneNames[lane]));
    }
    for (const TraceSpan& span : spans) {
        Json event = {{"ph", "X"},
                      {"pid", 1},
                      {"tid", static_cast<int>(span.lane)},
                      {"name", name_of(catalog, span)},
                      {"ts", microseconds(span.begin)},
                      {"dur", microseconds(span.end - span.begin)},
                      {"args", Json::object()}};
        if (span.bytes > 0.0) {
            event["args"]["bytes"] = span.bytes;
        }
        if (span.share > 0.0) {
            event["args"]["share"] = span.share;
        }
        events.push_back(std::move(event));
    }
    const Json all = {{"displayTimeUnit", "ms"},
                      {"otherData", {{"simulated", is_simulated}}},
                      {"traceEvents", std::move(events)}};
    return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void SimTrace::watch(SimLane& lane, Lane as) {
    lane.on_done([this, as](const SimLane::Job& job, Nanoseconds begin, Nanoseconds end) {
        if (end > begin) {
            spans_.push_back({.lane = as,
                              .first_group = job.group,
                              .bytes = as == TraceSpan::kLink ? job.amount : 0.0,
                              .begin = begin,
                              .end = end});
        }
    });
}

std::string SimTrace::to_json(const TensorCatalog& catalog, const std::string& title) const {
    return trace_json(catalog, spans_, title, true);
}

}  // namespace ballast::scheduler
