// SPDX-License-Identifier: MIT
// Loading, failing, queueing, cancelling and stopping.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/server/api/api_fixture.h"

namespace ballast::test {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

const std::string kChat = "/v1/chat/completions";

/// Starts, then sends a token whenever the gate opens, until nobody wants more.
Script talk_forever(Gate* gate, std::atomic<int>* n_cancelled) {
    return [gate, n_cancelled](const runtime::Job& job) {
        job.sink->on_start();
        while (!job.sink->cancelled()) {
            if (!gate->wait()) {
                return;
            }
            job.sink->on_text(token("x"));
        }
        n_cancelled->fetch_add(1);
    };
}

TEST(Lifecycle, Answers503WhileTheModelIsLoaded) {
    ApiSetup setup = chat_setup();
    setup.loaded = false;
    ApiServer server(say({"x"}), setup);
    for (const std::string& request : {post_json(kChat, chat_body().dump()),
                                       post_json("/v1/completions", "{}"),
                                       get("/v1/models"),
                                       get("/v1/models/tiny"),
                                       post_json("/tokenize", "{}")}) {
        const ClientReply reply = fetch(server.port(), request);
        EXPECT_EQ(reply.status, 503);
        EXPECT_EQ(error_of(reply).code, "model_loading");
        EXPECT_EQ(error_of(reply).type, "server_error");
        EXPECT_EQ(reply.header("retry-after"), "2");
        EXPECT_EQ(reply.header("x-should-retry"), "");
    }
    const ClientReply health = fetch(server.port(), get("/health"));
    EXPECT_EQ(health.status, 503);
    EXPECT_EQ(OrderedJson::parse(health.body)["status"], "loading");
    EXPECT_EQ(fetch(server.port(), get("/metrics")).status, 200);
    server.set_ready();
    EXPECT_EQ(server.post(kChat, chat_body()).status, 200);
    const ClientReply well = fetch(server.port(), get("/health"));
    EXPECT_EQ(well.status, 200);
    EXPECT_EQ(OrderedJson::parse(well.body)["status"], "ok");
}

TEST(Lifecycle, SaysWhyTheModelFailedAndThatWaitingWillNotHelp) {
    ApiServer server(say({"x"}));
    server.model.set_failed("tensor 'a' is missing.");
    const ClientReply reply = server.post(kChat, chat_body());
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(error_of(reply).code, "model_failed");
    EXPECT_NE(error_of(reply).message.find("tensor 'a' is missing."), std::string::npos);
    EXPECT_EQ(reply.header("x-should-retry"), "false");
    EXPECT_EQ(reply.header("retry-after"), "");
    const ClientReply health = fetch(server.port(), get("/health"));
    EXPECT_EQ(health.status, 503);
    EXPECT_EQ(OrderedJson::parse(health.body)["status"], "failed");
}

TEST(Lifecycle, RefusesRequestsOnceTheFileOrTheEngineHasFailed) {
    std::atomic<bool> changed{false};
    std::atomic<bool> broken{false};
    ApiSetup setup = chat_setup();
    setup.check_file = [&]() -> Status {
        return changed.load() ? Status(fail(ErrorCode::kIo, "the file has changed.")) : Status{};
    };
    setup.engine_failure = [&] { return std::string(broken.load() ? "the file was cut." : ""); };
    ApiServer server(say({"x"}), setup);
    EXPECT_EQ(server.post(kChat, chat_body()).status, 200);
    changed.store(true);
    const ClientReply reply = server.post(kChat, chat_body());
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(error_of(reply).code, "model_changed");
    EXPECT_EQ(reply.header("x-should-retry"), "false");
    broken.store(true);
    EXPECT_EQ(error_of(server.post(kChat, chat_body())).code, "model_failed");
    EXPECT_EQ(fetch(server.port(), get("/health")).status, 503);
    EXPECT_EQ(server.engine->jobs_taken(), 1);
}

TEST(Lifecycle, AnswersAFullQueueWith429) {
    Gate gate;
    ApiSetup setup = chat_setup();
    setup.queue.depth = 2;
    ApiServer server(
        [&gate](const runtime::Job& job) {
            gate.wait();
            say({"x"})(job);
        },
        setup);
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (int i = 0; i < 3; ++i) {
        clients.push_back(std::make_unique<HttpClient>(server.port()));
        clients.back()->send(post_json(kChat, chat_body({{"stream", i == 1}}).dump()));
        // The first is with the engine, the others wait.
        ASSERT_TRUE(eventually([&] {
            return server.engine->jobs_taken() == 1 &&
                   server.queue.size() == static_cast<std::size_t>(i);
        }));
    }
    for (const bool stream : {false, true}) {
        const ClientReply reply = server.post(kChat, chat_body({{"stream", stream}}));
        EXPECT_EQ(reply.status, 429);
        EXPECT_EQ(error_of(reply).type, "rate_limit_error");
        EXPECT_EQ(error_of(reply).code, "rate_limit_exceeded");
        EXPECT_EQ(reply.header("retry-after"), "1");
    }
    EXPECT_NE(server.metrics().find("ballast_queue_depth 2"), std::string::npos);
    EXPECT_NE(server.metrics().find(
                  R"(ballast_requests_total{endpoint="chat_completions",outcome="rejected"} 2)"),
              std::string::npos);
    gate.open(3);
    for (auto& client : clients) {
        EXPECT_EQ(client->read_reply().status, 200);
    }
}

TEST(Lifecycle, AClientThatLeavesTheQueueMakesRoom) {
    Gate gate;
    ApiSetup setup = chat_setup();
    setup.queue.depth = 1;
    ApiServer server(
        [&gate](const runtime::Job& job) {
            gate.wait();
            say({"x"})(job);
        },
        setup);
    HttpClient running(server.port());
    running.send(post_json(kChat, chat_body().dump()));
    ASSERT_TRUE(eventually([&] { return server.engine->jobs_taken() == 1; }));
    HttpClient waiting(server.port());
    waiting.send(post_json(kChat, chat_body().dump()));
    ASSERT_TRUE(eventually([&] { return server.queue.size() == 1; }));
    EXPECT_EQ(server.post(kChat, chat_body()).status, 429);
    waiting.close();
    ASSERT_TRUE(eventually([&] {
        return server.metrics().find(R"(endpoint="chat_completions",outcome="cancelled"} 1)") !=
               std::string::npos;
    }));
    HttpClient next(server.port());
    next.send(post_json(kChat, chat_body().dump()));
    gate.open(2);
    EXPECT_EQ(next.read_reply().status, 200);
    EXPECT_EQ(running.read_reply().status, 200);
}

TEST(Lifecycle, AClientThatGoesIsNoticedWithinAToken) {
    for (const bool stream : {true, false}) {
        Gate gate;
        std::atomic<int> n_cancelled{0};
        ApiServer server(talk_forever(&gate, &n_cancelled));
        HttpClient client(server.port());
        client.send(post_json(kChat, chat_body({{"stream", stream}}).dump()));
        ASSERT_TRUE(eventually([&] { return server.engine->jobs_taken() == 1; }));
        gate.open();
        if (stream) {
            client.read_until("\"x\"");
        }
        client.close();
        EXPECT_TRUE(eventually([&] {
            return server.metrics().find(R"(endpoint="chat_completions",outcome="cancelled"} 1)") !=
                   std::string::npos;
        }));
        // One more token at most: the engine asks before each.
        gate.open();
        EXPECT_TRUE(eventually([&] { return n_cancelled.load() == 1; }));
    }
}

TEST(Lifecycle, OneClientsLeavingDoesNotStopAnother) {
    Gate gate;
    ApiServer server([&gate](const runtime::Job& job) {
        gate.wait();
        say({"x"})(job);
    });
    HttpClient first(server.port());
    first.send(post_json(kChat, chat_body().dump()));
    ASSERT_TRUE(eventually([&] { return server.engine->jobs_taken() == 1; }));
    HttpClient second(server.port());
    second.send(post_json(kChat, chat_body().dump()));
    ASSERT_TRUE(eventually([&] { return server.queue.size() == 1; }));
    second.close();
    gate.open(2);
    EXPECT_EQ(first.read_reply().status, 200);
}

TEST(Lifecycle, StopGivesARunningStreamTimeToEnd) {
    Gate gate;
    ApiServer server([&gate](const runtime::Job& job) {
        job.sink->on_start();
        gate.wait();
        job.sink->on_text(token("end"));
        job.sink->on_finish(runtime::FinishReason::kStop, some_stats());
    });
    HttpClient client(server.port());
    client.send(post_json(kChat, chat_body({{"stream", true}}).dump()));
    client.read_until("assistant");
    std::thread stopper([&] {
        server.admission.stop();
        server.server->stop(10s);
    });
    std::this_thread::sleep_for(50ms);
    gate.open();
    client.read_until("data: [DONE]\n\n\r\n0\r\n\r\n");
    stopper.join();
    EXPECT_TRUE(client.closed_within(5s));
}

TEST(Lifecycle, StopEndsAStreamAtTheDeadlineWithAnErrorEvent) {
    Gate gate;
    std::atomic<int> n_cancelled{0};
    ApiServer server(talk_forever(&gate, &n_cancelled));
    HttpClient client(server.port());
    client.send(post_json(kChat, chat_body({{"stream", true}}).dump()));
    client.read_until("assistant");
    HttpClient whole(server.port());
    whole.send(post_json(kChat, chat_body().dump()));
    ASSERT_TRUE(eventually([&] { return server.queue.size() == 1; }));
    const auto begun = std::chrono::steady_clock::now();
    server.admission.stop();
    server.server->stop(100ms);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 3s);
    const std::string rest = client.read_to_end();
    EXPECT_NE(rest.find("\"code\":\"server_stopping\""), std::string::npos) << rest;
    EXPECT_EQ(rest.find("[DONE]"), std::string::npos);
    const ClientReply reply = whole.read_reply();
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(error_of(reply).code, "server_stopping");
    gate.open(2);
    EXPECT_TRUE(eventually([&] { return n_cancelled.load() >= 1; }));
}

TEST(Lifecycle, RefusesNewRequestsWhileItStops) {
    ApiServer server(say({"x"}));
    server.admission.stop();
    const ClientReply reply = server.post(kChat, chat_body());
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(error_of(reply).code, "server_stopping");
    EXPECT_FALSE(reply.header("retry-after").empty());
}

TEST(Lifecycle, GivesUpOnAClientThatDoesNotReadItsStream) {
    ApiSetup setup = chat_setup();
    setup.queue.stream_bytes_max = 100'000;
    std::atomic<bool> cancelled{false};
    ApiServer server(
        [&cancelled](const runtime::Job& job) {
            job.sink->on_start();
            const std::string block(10'000, 'x');
            for (int i = 0; i < 20'000 && !job.sink->cancelled(); ++i) {
                job.sink->on_text(token(block));
            }
            cancelled.store(job.sink->cancelled());
        },
        setup);
    HttpClient client(server.port());
    client.send(post_json(kChat, chat_body({{"stream", true}}).dump()));
    EXPECT_TRUE(eventually([&] { return cancelled.load(); }));
}

}  // namespace
}  // namespace ballast::test
