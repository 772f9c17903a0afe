// SPDX-License-Identifier: MIT
// The engine's spans as the simulator's.
#include "server/cli/trace_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "scheduler/sim/trace.h"
#include "server/cli/report.h"

namespace ballast::cli {

namespace {

using runtime::Lane;
using runtime::LaneSpan;
using scheduler::TraceSpan;

/// Of the groups' weights, what a share of them reads for one token.
double read_bytes(const scheduler::TensorCatalog& catalog, const LaneSpan& span) {
    double bytes = 0.0;
    for (int i = 0; i < span.n_groups && span.first_group >= 0; ++i) {
        const auto& group = catalog.groups[static_cast<std::size_t>(span.first_group + i)];
        bytes += static_cast<double>(group.weight_bytes) +
                 static_cast<double>(group.expert_bytes) * group.experts_used;
    }
    return bytes * span.share;
}

TraceSpan trace_span(const scheduler::TensorCatalog& catalog, const LaneSpan& span) {
    TraceSpan traced{.what = "embedding",
                     .first_group = span.first_group,
                     .n_groups = span.n_groups,
                     .share = span.share,
                     .begin = span.begin,
                     .end = span.end};
    traced.lane = span.lane == Lane::kDevice ? TraceSpan::kDevice
                  : span.lane == Lane::kCpu  ? TraceSpan::kCpu
                                             : TraceSpan::kLink;
    if (span.is_copy()) {
        traced.bytes = static_cast<double>(span.bytes);
        traced.what = span.to_device ? "activations to the device" : "activations to the CPU";
    } else {
        traced.bytes = read_bytes(catalog, span);
    }
    return traced;
}

}  // namespace

Status write_trace(const std::string& path, const std::string& json) {
    std::error_code ignored;
    const auto there = std::filesystem::status(path, ignored).type();
    if (there == std::filesystem::file_type::fifo || there == std::filesystem::file_type::socket) {
        return fail(ErrorCode::kIo,
                    fmt::format("Cannot write {}: it is no file.", printable(path, 256)));
    }
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << json;
    file.close();
    if (!file.good()) {
        return fail(
            ErrorCode::kIo,
            fmt::format("Cannot write {}: is its folder there, and may it be written?", path));
    }
    return {};
}

std::string engine_trace(const scheduler::TensorCatalog& catalog,
                         std::span<const LaneSpan> spans,
                         const std::string& title) {
    std::vector<TraceSpan> traced;
    traced.reserve(spans.size());
    Nanoseconds begin = Nanoseconds::max();
    for (const LaneSpan& span : spans) {
        traced.push_back(trace_span(catalog, span));
        begin = std::min(begin, span.begin);
    }
    for (TraceSpan& span : traced) {
        span.begin -= begin;
        span.end -= begin;
    }
    return scheduler::trace_json(catalog, traced, title, false);
}

}  // namespace ballast::cli
