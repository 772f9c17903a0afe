// SPDX-License-Identifier: MIT
// /ballast/v1/placement and /ballast/v1/decisions over a state of round numbers.
#include <gtest/gtest.h>

#include "tests/server/api/api_fixture.h"

namespace ballast::test {
namespace {

const std::string kPlacement = "/ballast/v1/placement";
const std::string kDecisions = "/ballast/v1/decisions";

/// A layer of attention and experts and a head, of which the device has the attention.
struct FakeModel {
    scheduler::TensorCatalog catalog = {
        .name = "fake",
        .embedding_bytes = 500,
        .groups = {
            {.kind = scheduler::GroupKind::kAttention, .layer = 0, .parts = 4, .weight_bytes = 100},
            {.kind = scheduler::GroupKind::kExperts,
             .layer = 0,
             .parts = 4,
             .weight_bytes = 10,
             .expert_bytes = 20},
            {.kind = scheduler::GroupKind::kHead, .layer = -1, .weight_bytes = 300}}};
    runtime::Residency residency = {.groups = {{.resident = 1,
                                                .streamed = 2,
                                                .prefill_streamed = 3,
                                                .device_weight_bytes = 128,
                                                .device_kv_bytes = 64},
                                               {},
                                               {.resident = 1, .device_weight_bytes = 300}},
                                    .kv_tokens = 16};
    scheduler::SchedulerState state;
    std::atomic<int> n_asked{0};

    FakeModel() {
        auto plan = std::make_shared<scheduler::Plan>();
        plan->version = 3;
        plan->reason = "it is faster so";
        plan->forecast = {.decode_seconds = 0.5,
                          .prefill_seconds = 2.0,
                          .depth = 100,
                          .prefill_tokens = 512,
                          .decode_bound_seconds = 0.25,
                          .prefill_bound_seconds = 1.0,
                          .gap = 0.125};
        state.plan = std::move(plan);
    }

    ApiSetup setup() {
        ApiSetup setup = chat_setup();
        setup.placement = {
            .catalog = &catalog,
            .load =
                [this] {
                    return runtime::LoadReport{
                        .level = scheduler::LoadLevel::kPolite,
                        .reason = "A game runs.",
                        .has_device = true,
                        .self_bytes = 192,
                        .others_bytes = 300,
                        .total_bytes = 1000,
                        .residency = std::make_shared<const runtime::Residency>(residency)};
                },
            .bytes =
                [] {
                    return std::vector<runtime::PlacedBytes>{
                        {.device = "cpu", .tensor_class = "experts", .bytes = 90},
                        {.device = "device", .tensor_class = "attention", .bytes = 128}};
                },
            .state =
                [this] {
                    n_asked.fetch_add(1);
                    return state;
                }};
        return setup;
    }
};

std::string body_of(const ApiServer& server, const std::string& path) {
    const ClientReply reply = fetch(server.port(), get(path));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.header("content-type"), "application/json");
    return reply.body;
}

const std::string kBytesAndGroups =
    R"("load":{"level":"polite","reason":"A game runs.","degraded":null,"device_bytes":192,)"
    R"("others_bytes":300,"total_bytes":1000},)"
    R"("bytes":[{"device":"cpu","class":"experts","bytes":90},)"
    R"({"device":"device","class":"attention","bytes":128}],)"
    R"("groups":[{"layer":0,"class":"attention","device":"both","parts":4,"resident_parts":1,)"
    R"("streamed_parts":2,"prefill_streamed_parts":3,"weight_bytes":100,)"
    R"("device_weight_bytes":128,"device_kv_bytes":64},)"
    R"({"layer":0,"class":"experts","device":"cpu","parts":4,"resident_parts":0,)"
    R"("streamed_parts":0,"prefill_streamed_parts":0,"weight_bytes":90,)"
    R"("device_weight_bytes":0,"device_kv_bytes":0},)"
    R"({"class":"head","device":"device","parts":1,"resident_parts":1,)"
    R"("streamed_parts":0,"prefill_streamed_parts":0,"weight_bytes":300,)"
    R"("device_weight_bytes":300,"device_kv_bytes":0}]})";

TEST(PlacementRoute, SaysWithoutAMeasuredMachineOnlyWhereThingsAre) {
    FakeModel fake;
    const ApiServer server(say({"x"}), fake.setup());
    EXPECT_EQ(
        body_of(server, kPlacement),
        R"({"object":"ballast.placement","model":"tiny",)"
        R"("plan":{"version":3,"reason":"it is faster so"},"measured":null,"degraded":null,)" +
            kBytesAndGroups);
    EXPECT_EQ(fake.n_asked.load(), 1);
}

TEST(PlacementRoute, ShowsForecastAndMeasurementOnceThereAreSome) {
    FakeModel fake;
    fake.state.has_hardware = true;
    fake.state.measured_seconds = 1.0;
    fake.state.predicted_seconds = 0.75;
    fake.state.limit_fraction = 0.25;
    fake.state.plan_fraction = 0.5;
    fake.residency.degraded = "1 group stays on the CPU: no room";
    const ApiServer server(say({"x"}), fake.setup());
    EXPECT_EQ(body_of(server, kPlacement),
              R"({"object":"ballast.placement","model":"tiny",)"
              R"("plan":{"version":3,"reason":"it is faster so",)"
              R"("predicted_decode_seconds":0.5,"predicted_prefill_seconds":2.0,"depth":100,)"
              R"("prefill_tokens":512,"predicted_limit":0.5,"gap":0.125},)"
              R"("measured":{"decode_seconds":1.0,"predicted_seconds":0.75,)"
              R"("limit_fraction":0.25,"plan_fraction":0.5},)"
              R"("degraded":"1 group stays on the CPU: no room",)" +
                  kBytesAndGroups);
}

TEST(DecisionsRoute, ListsThemOldestFirst) {
    FakeModel fake;
    fake.state.decisions = {
        {.number = 7, .unix_seconds = 1'700'000'000, .cause = "start", .text = "Plan 1: \"so\"."},
        {.number = 8, .unix_seconds = 1'700'000'001, .cause = "profile", .text = "Plan 2."}};
    const ApiServer server(say({"x"}), fake.setup());
    EXPECT_EQ(body_of(server, kDecisions),
              R"({"object":"list","data":[)"
              R"({"number":7,"created":1700000000,"cause":"start","text":"Plan 1: \"so\"."},)"
              R"({"number":8,"created":1700000001,"cause":"profile","text":"Plan 2."}]})");
}

TEST(DecisionsRoute, IsAnEmptyListBeforeAny) {
    FakeModel fake;
    const ApiServer server(say({"x"}), fake.setup());
    EXPECT_EQ(body_of(server, kDecisions), R"({"object":"list","data":[]})");
}

TEST(PlacementRoute, Answers503WhileTheModelIsLoaded) {
    FakeModel fake;
    ApiSetup setup = fake.setup();
    setup.loaded = false;
    ApiServer server(say({"x"}), setup);
    for (const std::string& path : {kPlacement, kDecisions}) {
        const ClientReply reply = fetch(server.port(), get(path));
        EXPECT_EQ(reply.status, 503);
        EXPECT_EQ(error_of(reply).code, "model_loading");
        EXPECT_EQ(reply.header("retry-after"), "2");
    }
    EXPECT_EQ(fake.n_asked.load(), 0);
    server.set_ready();
    EXPECT_EQ(fetch(server.port(), get(kPlacement)).status, 200);
    EXPECT_EQ(fetch(server.port(), get(kDecisions)).status, 200);
}

TEST(PlacementRoute, IsOnlyRead) {
    FakeModel fake;
    const ApiServer server(say({"x"}), fake.setup());
    for (const std::string& path : {kPlacement, kDecisions}) {
        const ClientReply reply = fetch(server.port(), post_json(path, "{}"));
        EXPECT_EQ(reply.status, 405);
        EXPECT_EQ(error_of(reply).type, "invalid_request_error");
        EXPECT_NE(reply.header("allow").find("GET"), std::string::npos);
        EXPECT_EQ(reply.header("allow").find("POST"), std::string::npos);
    }
    EXPECT_EQ(fake.n_asked.load(), 0);
}

TEST(PlacementRoute, AReasonThatIsNoUtf8IsStillJson) {
    FakeModel fake;
    fake.residency.degraded = "no \xFF room";
    const ApiServer server(say({"x"}), fake.setup());
    EXPECT_EQ(OrderedJson::parse(body_of(server, kPlacement))["degraded"], "no \uFFFD room");
}

}  // namespace
}  // namespace ballast::test
