// SPDX-License-Identifier: MIT
// /v1/chat/completions: bytes of replies and streams.
#include <set>

#include <gtest/gtest.h>

#include "tests/server/api/api_fixture.h"

namespace ballast::test {
namespace {

const std::string kPath = "/v1/chat/completions";
const std::string kHead =
    R"({"id":"chatcmpl-ID","object":"chat.completion.chunk","created":1700000000,"model":"tiny",)"
    R"("system_fingerprint":"ballast-0.1.0","choices":[)";

std::string chunk(const std::string& choice, const std::string& tail = "") {
    return "data: " + kHead + choice + "]" + tail + "}\n\n";
}

TEST(Chat, WholeReplyIsWrittenExactly) {
    ApiServer server(say({"Hello", " wörld", "!"}));
    const ClientReply reply = server.post(kPath, chat_body());
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.header("content-type"), "application/json");
    EXPECT_EQ(
        with_plain_ids(reply.body),
        R"({"id":"chatcmpl-ID","object":"chat.completion","created":1700000000,"model":"tiny",)"
        R"("system_fingerprint":"ballast-0.1.0","choices":[{"index":0,"message":{"role":)"
        R"("assistant","content":"Hello wörld!","refusal":null},"logprobs":null,)"
        R"("finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,)"
        R"("total_tokens":10,"prompt_tokens_details":{"cached_tokens":2,"audio_tokens":0},)"
        R"("completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,)"
        R"("accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"timings":)"
        R"({"prompt_n":5,"prompt_ms":500.0,"prompt_per_second":10.0,"predicted_n":3,)"
        R"("predicted_ms":250.0,"predicted_per_second":8.0,"cache_n":2}})");
}

/// Sends each text only after the test has opened the gate, so that nothing is joined.
Script say_slowly(Gate* gate, std::vector<std::string> texts) {
    return [gate, texts = std::move(texts)](const runtime::Job& job) {
        job.sink->on_start();
        for (const std::string& text : texts) {
            gate->wait();
            job.sink->on_text(token(text));
        }
        gate->wait();
        job.sink->on_finish(runtime::FinishReason::kLength, some_stats());
    };
}

TEST(Chat, StreamIsWrittenExactly) {
    Gate gate;
    ApiServer server(say_slowly(&gate, {"Hello", "", " there"}));
    HttpClient client(server.port());
    client.send(post_json(kPath, chat_body({{"stream", true}}).dump()));
    client.read_until("data: ");
    gate.open();
    client.read_until("\"Hello\"");
    gate.open(3);
    // Read once more from the start: the parts above only set the pace.
    const std::string rest = client.read_until("data: [DONE]\n\n\r\n0\r\n\r\n");
    EXPECT_EQ(rest.find("\"usage\""), std::string::npos);
}

TEST(Chat, EachEventOfAStreamHasItsShape) {
    Gate gate;
    ApiServer server(say_slowly(&gate, {"Hello", "", " there"}));
    HttpClient client(server.port());
    client.send(post_json(kPath, chat_body({{"stream", true}}).dump()));
    std::string head = client.read_until("\r\n\r\n");
    EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n"));
    EXPECT_NE(head.find("Content-Type: text/event-stream\r\n"), std::string::npos);
    EXPECT_NE(head.find("Cache-Control: no-cache\r\n"), std::string::npos);
    const auto next_event = [&] {
        client.read_until("\r\n");  // the chunk's size
        std::string event = client.read_until("\n\n");
        client.read_until("\r\n");
        return with_plain_ids(event);
    };
    EXPECT_EQ(next_event(),
              chunk(R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,)"
                    R"("finish_reason":null})"));
    gate.open();
    EXPECT_EQ(next_event(),
              chunk(R"({"index":0,"delta":{"content":"Hello"},"logprobs":null,)"
                    R"("finish_reason":null})"));
    gate.open(2);  // the empty piece makes no event
    EXPECT_EQ(next_event(),
              chunk(R"({"index":0,"delta":{"content":" there"},"logprobs":null,)"
                    R"("finish_reason":null})"));
    gate.open();
    EXPECT_EQ(next_event(),
              chunk(R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"length"})"));
    EXPECT_EQ(next_event(), "data: [DONE]\n\n");
    EXPECT_EQ(client.read_until("0\r\n\r\n"), "0\r\n\r\n");
    // The connection goes on.
    client.send(get("/v1/models"));
    EXPECT_EQ(client.read_reply().status, 200);
}

TEST(Chat, UsageComesOnlyWhereAskedForAndLast) {
    ApiServer server(say({"Hi"}));
    const ClientReply reply = server.post(
        kPath, chat_body({{"stream", true}, {"stream_options", {{"include_usage", true}}}}));
    const std::string body = with_plain_ids(reply.body);
    const std::string tail = R"(,"usage":null)";
    const std::string expected =
        chunk(R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,)"
              R"("finish_reason":null})",
              tail) +
        chunk(R"({"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null})",
              tail) +
        chunk(R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"})", tail) +
        chunk("",
              R"(,"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,)"
              R"("prompt_tokens_details":{"cached_tokens":2,"audio_tokens":0},)"
              R"("completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,)"
              R"("accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"timings":)"
              R"({"prompt_n":5,"prompt_ms":500.0,"prompt_per_second":10.0,"predicted_n":3,)"
              R"("predicted_ms":250.0,"predicted_per_second":8.0,"cache_n":2})") +
        "data: [DONE]\n\n";
    EXPECT_EQ(body, expected);
}

/// The events of a stream's body, without [DONE].
std::vector<OrderedJson> events_of(const std::string& body) {
    std::vector<OrderedJson> events;
    for (std::size_t at = 0; at < body.size();) {
        const std::size_t end = body.find("\n\n", at);
        const std::string line = body.substr(at, end - at);
        if (line.starts_with("data: {")) {
            events.push_back(OrderedJson::parse(line.substr(6)));
        }
        at = end + 2;
    }
    return events;
}

TEST(Chat, ChoicesOfOneStreamAreToldApartByIndex) {
    ApiServer server(say({"a", "b"}));
    const ClientReply reply = server.post(kPath, chat_body({{"stream", true}, {"n", 3}}));
    std::map<int, std::string> texts;
    std::set<int> finished;
    std::set<std::string> ids;
    for (const OrderedJson& event : events_of(reply.body)) {
        ids.insert(event["id"]);
        ASSERT_EQ(event["choices"].size(), 1U);
        const OrderedJson& choice = event["choices"][0];
        const int index = choice["index"];
        if (!choice["finish_reason"].is_null()) {
            EXPECT_TRUE(finished.insert(index).second);
            EXPECT_TRUE(choice["delta"].empty());
        } else if (choice["delta"].contains("role")) {
            EXPECT_TRUE(texts.emplace(index, "").second) << "role comes first and once";
        } else {
            texts.at(index) += choice["delta"]["content"].get<std::string>();
        }
    }
    EXPECT_EQ(texts, (std::map<int, std::string>{{0, "ab"}, {1, "ab"}, {2, "ab"}}));
    EXPECT_EQ(finished.size(), 3U);
    EXPECT_EQ(ids.size(), 1U);
    EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
}

TEST(Chat, ChoicesShareTheirPromptInUsage) {
    ApiServer server(say({"a"}));
    const auto json =
        OrderedJson::parse(server.post(kPath, chat_body({{"n", 2}, {"seed", 5}})).body);
    ASSERT_EQ(json["choices"].size(), 2U);
    EXPECT_EQ(json["choices"][1]["index"], 1);
    EXPECT_EQ(json["usage"]["prompt_tokens"], 7);
    EXPECT_EQ(json["usage"]["completion_tokens"], 6);
    EXPECT_EQ(server.last_job().sampling.seed, 6U);  // the second choice's
}

TEST(Chat, LogprobsCarryBytesAndAFloor) {
    const auto script = [](const runtime::Job& job) {
        job.sink->on_start();
        runtime::TextDelta delta = token("é");
        runtime::TokenLogprobs first;
        first.chosen = {1, "\xC3", -0.5F};
        first.top = {{1, "\xC3", -0.5F}, {2, "x", -std::numeric_limits<float>::infinity()}};
        runtime::TokenLogprobs second;
        second.chosen = {3, "\xA9", -1.0F};
        delta.logprobs = {first, second};
        job.sink->on_text(std::move(delta));
        job.sink->on_finish(runtime::FinishReason::kStop, some_stats());
    };
    ApiServer server(script);
    const auto reply = server.post(kPath, chat_body({{"logprobs", true}, {"top_logprobs", 2}}));
    EXPECT_EQ(server.last_job().sampling.top_logprobs, 2);
    const auto json = OrderedJson::parse(reply.body);
    EXPECT_EQ(json["choices"][0]["logprobs"].dump(),
              R"({"content":[{"token":"�","logprob":-0.5,"bytes":[195],"top_logprobs":[)"
              R"({"token":"�","logprob":-0.5,"bytes":[195]},)"
              R"({"token":"x","logprob":-9999.0,"bytes":[120]}]},)"
              R"({"token":"�","logprob":-1.0,"bytes":[169],"top_logprobs":[]}],"refusal":null})");
}

TEST(Chat, TheEngineGetsWhatWasAskedFor) {
    ApiServer server(say({"x"}));
    const auto reply = server.post(kPath,
                                   chat_body({{"temperature", 0.5},
                                              {"top_p", 0.9},
                                              {"top_k", 40},
                                              {"min_p", 0.05},
                                              {"presence_penalty", 0.25},
                                              {"frequency_penalty", -0.5},
                                              {"repeat_penalty", 1.5},
                                              {"seed", -1},
                                              {"stop", {"END", "\n\n"}},
                                              {"logit_bias", {{"65", -100}, {"66", 1.5}}},
                                              {"max_tokens", 50},
                                              {"max_completion_tokens", 20},
                                              {"ignore_eos", true}}));
    ASSERT_EQ(reply.status, 200) << reply.body;
    const runtime::Job job = server.last_job();
    EXPECT_FLOAT_EQ(job.sampling.temperature, 0.5F);
    EXPECT_FLOAT_EQ(job.sampling.top_p, 0.9F);
    EXPECT_EQ(job.sampling.top_k, 40);
    EXPECT_FLOAT_EQ(job.sampling.min_p, 0.05F);
    EXPECT_FLOAT_EQ(job.sampling.presence_penalty, 0.25F);
    EXPECT_FLOAT_EQ(job.sampling.frequency_penalty, -0.5F);
    EXPECT_FLOAT_EQ(job.sampling.repetition_penalty, 1.5F);
    EXPECT_EQ(job.sampling.seed, ~std::uint64_t{0});
    EXPECT_EQ(job.sampling.top_logprobs, -1);
    EXPECT_EQ(job.stop, (std::vector<std::string>{"END", "\n\n"}));
    ASSERT_EQ(job.sampling.logit_bias.size(), 2U);
    EXPECT_EQ(job.sampling.logit_bias[0], (std::pair<TokenId, float>{65, -100.0F}));
    EXPECT_EQ(job.max_tokens, 20);
    EXPECT_TRUE(job.ignore_eos);
}

TEST(Chat, AnOpenReplyGetsTheRestOfTheContext) {
    ApiServer server(say({"x"}));
    ASSERT_EQ(server.post(kPath, chat_body()).status, 200);
    const runtime::Job job = server.last_job();
    EXPECT_EQ(static_cast<int>(job.prompt.size()) + job.max_tokens, 200);
}

TEST(Chat, SeedsDifferWhereNoneIsGiven) {
    ApiServer server(say({"x"}));
    ASSERT_EQ(server.post(kPath, chat_body()).status, 200);
    const auto first = server.last_job().sampling.seed;
    ASSERT_EQ(server.post(kPath, chat_body()).status, 200);
    EXPECT_NE(server.last_job().sampling.seed, first);
}

TEST(Chat, CommentsKeepASilentStreamAlive) {
    Gate gate;
    ApiServer server(say_slowly(&gate, {}));
    HttpClient client(server.port());
    client.send(post_json(kPath, chat_body({{"stream", true}}).dump()));
    client.read_until("finish_reason\":null");
    EXPECT_NE(client.read_until(": waiting\n\n").find("b\r\n: waiting\n\n"), std::string::npos);
    gate.open();
    client.read_until("[DONE]");
}

TEST(Chat, CommentsCanBeSwitchedOff) {
    Gate gate;
    ApiSetup setup = chat_setup();
    setup.http.sse_comments = false;
    ApiServer server(say_slowly(&gate, {}), setup);
    HttpClient client(server.port());
    client.send(post_json(kPath, chat_body({{"stream", true}}).dump()));
    client.read_until("finish_reason\":null");
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    gate.open();
    EXPECT_EQ(client.read_until("[DONE]").find(": waiting"), std::string::npos);
}

}  // namespace
}  // namespace ballast::test
