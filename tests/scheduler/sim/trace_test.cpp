// SPDX-License-Identifier: MIT
// What a trace shows of a small plan that computes, streams and waits on every lane.
#include "scheduler/sim/trace.h"

#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "scheduler/sim/simulator.h"
#include "tests/scheduler/placement/plan_quality.h"

namespace ballast::test {
namespace {

using Json = nlohmann::json;

TEST(SimTrace, ShowsOneJobAtATimeOnEachLaneAndEveryByteThatCrossed) {
    const Instance instance = draw_instance(0);
    scheduler::Placement placement = scheduler::cpu_only(instance.catalog);
    for (std::size_t i = 0; i < placement.groups.size(); ++i) {
        placement.groups[i].streamed = instance.catalog.groups[i].parts / 2;
    }
    scheduler::SimTrace trace;
    const scheduler::SimulatedSteps steps =
        scheduler::simulate_steps(instance.hardware,
                                  instance.catalog,
                                  placement,
                                  {.shape = {.tokens = 1, .depth = 64}, .n_steps = 3},
                                  {},
                                  &trace);
    const Json all = Json::parse(trace.to_json(instance.catalog, "a title"));
    EXPECT_EQ(all["otherData"]["simulated"], true);
    std::map<int, double> end;
    double bytes = 0.0;
    std::size_t n_spans = 0;
    for (const Json& event : all["traceEvents"]) {
        if (event["ph"] != "X") {
            continue;
        }
        ++n_spans;
        const int lane = event["tid"];
        EXPECT_GE(event["ts"].get<double>(), end[lane] - 1e-6);
        end[lane] = event["ts"].get<double>() + event["dur"].get<double>();
        EXPECT_NE(event["name"], "work");
        if (lane == scheduler::TraceSpan::kLink) {
            bytes += event["args"]["bytes"].get<double>();
        }
    }
    EXPECT_EQ(n_spans, trace.n_spans());
    EXPECT_EQ(end.size(), 3U) << "all three lanes work";
    EXPECT_NEAR(bytes, 3.0 * steps.link_bytes, 1e-6 * bytes);
    EXPECT_EQ(all["traceEvents"][0]["args"]["name"], "a title");
}

}  // namespace
}  // namespace ballast::test
