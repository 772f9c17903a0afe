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

}  // namespace

void SimTrace::watch(SimLane& lane, Lane as) {
    lane.on_done([this, as](const SimLane::Job& job, Nanoseconds begin, Nanoseconds end) {
        if (end > begin) {
            spans_.push_back({as, job.group, begin, end, job.amount});
        }
    });
}

std::string SimTrace::to_json(const TensorCatalog& catalog, const std::string& title) const {
    Json events = Json::array();
    events.push_back(named("process_name", 0, title));
    for (std::size_t lane = 0; lane < kLaneNames.size(); ++lane) {
        events.push_back(named("thread_name", static_cast<int>(lane), kLaneNames[lane]));
    }
    for (const Span& span : spans_) {
        std::string name = "work";
        if (span.group >= 0) {
            const TensorGroup& group = catalog.groups[static_cast<std::size_t>(span.group)];
            name = group.kind == GroupKind::kHead
                       ? std::string(kind_name(group.kind))
                       : fmt::format("{} {}", kind_name(group.kind), group.layer);
        }
        Json event = {{"ph", "X"},
                      {"pid", 1},
                      {"tid", static_cast<int>(span.lane)},
                      {"name", std::move(name)},
                      {"ts", microseconds(span.begin)},
                      {"dur", microseconds(span.end - span.begin)}};
        if (span.lane == kLink) {
            event["args"] = {{"bytes", span.amount}};
        }
        events.push_back(std::move(event));
    }
    const Json all = {{"displayTimeUnit", "ms"},
                      {"otherData", {{"simulated", true}}},
                      {"traceEvents", std::move(events)}};
    return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ballast::scheduler
