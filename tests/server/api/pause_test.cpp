// SPDX-License-Identifier: MIT
// POST /ballast/v1/pause and /resume, and what /health says of the load.
#include <gtest/gtest.h>

#include "tests/server/api/api_fixture.h"

namespace ballast::test {
namespace {

const std::string kPause = "/ballast/v1/pause";
const std::string kResume = "/ballast/v1/resume";

bool paused(const ApiServer& server) {
    return server.pauses.paused(server.clock.now());
}

TEST(PauseRoute, HoldsUntilResume) {
    const ApiServer server(say({"x"}));
    const ClientReply reply = server.post(kPause, OrderedJson::object());
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, R"({"object":"ballast.load","paused":true,"load":null})");
    EXPECT_TRUE(paused(server));
    EXPECT_EQ(server.post(kResume, OrderedJson::object()).body,
              R"({"object":"ballast.load","paused":false,"load":null})");
    EXPECT_FALSE(paused(server));
}

TEST(PauseRoute, NeedsNoModelToBeThere) {
    ApiSetup setup = chat_setup();
    setup.loaded = false;
    const ApiServer server(say({"x"}), setup);
    EXPECT_EQ(server.post(kPause, OrderedJson::object()).status, 200);
    EXPECT_TRUE(paused(server));
}

TEST(PauseRoute, KnowsHoldersAndTellsThemThatSomebodyResumed) {
    const ApiServer server(say({"x"}));
    const OrderedJson hold = {{"holder", "game"}, {"seconds", 10}};
    EXPECT_EQ(server.post(kPause, hold).status, 200);
    EXPECT_TRUE(paused(server));
    EXPECT_EQ(server.post(kResume, {{"holder", "another"}}).status, 200);
    EXPECT_TRUE(paused(server));
    EXPECT_EQ(server.post(kResume, {{"holder", "game"}}).status, 200);
    EXPECT_FALSE(paused(server));
    EXPECT_EQ(server.post(kPause, hold).status, 200) << "it may come again";
    EXPECT_EQ(server.post(kResume, OrderedJson::object()).status, 200);
    const ClientReply refused = server.post(kPause, hold);
    EXPECT_EQ(refused.status, 409);
    EXPECT_EQ(error_of(refused).code, "resumed");
    EXPECT_FALSE(paused(server));
}

TEST(PauseRoute, NamesTheFieldThatIsWrong) {
    const ApiServer server(say({"x"}));
    for (const auto& [body, param] :
         {std::pair<OrderedJson, std::string>{{{"holder", "game"}}, "seconds"},
          {{{"holder", "game"}, {"seconds", 301}}, "seconds"},
          {{{"holder", ""}, {"seconds", 1}}, "holder"},
          {{{"holder", 7}, {"seconds", 1}}, "holder"}}) {
        const ClientReply reply = server.post(kPause, body);
        EXPECT_EQ(reply.status, 400) << body;
        EXPECT_EQ(error_of(reply).param, param) << body;
    }
    EXPECT_FALSE(paused(server));
    EXPECT_EQ(fetch(server.port(), get(kPause)).status, 405);
}

TEST(HealthRoute, TellsLevelReasonAndDegradation) {
    ApiSetup setup = chat_setup();
    setup.placement.load = [] {
        return runtime::LoadReport{.level = scheduler::LoadLevel::kDegraded,
                                   .reason = "The device was lost.",
                                   .has_device = true,
                                   .degraded = runtime::LoadCause::kLost,
                                   .degraded_text = "It fell off."};
    };
    const ApiServer server(say({"x"}), setup);
    const OrderedJson health = OrderedJson::parse(fetch(server.port(), get("/health")).body);
    EXPECT_EQ(health["status"], "ok") << "the CPU answers";
    EXPECT_EQ(health["load"].dump(),
              R"({"level":"degraded","reason":"The device was lost.",)"
              R"("degraded":{"reason":"device_lost","text":"It fell off."},)"
              R"("device_bytes":0,"others_bytes":0,"total_bytes":0})");
}

}  // namespace
}  // namespace ballast::test
