// SPDX-License-Identifier: MIT
// /v1/completions: prompts in four forms, echo, logprobs, bytes of the stream.
#include <gtest/gtest.h>

#include "tests/server/api/api_fixture.h"

namespace ballast::test {
namespace {

const std::string kPath = "/v1/completions";

TEST(Completions, StreamIsWrittenExactly) {
    ApiServer server(say({" upon"}));
    const ClientReply reply = server.post(kPath, completion_body({{"stream", true}}));
    const std::string head =
        R"(data: {"id":"cmpl-ID","object":"text_completion","created":1700000000,"model":"tiny",)"
        R"("system_fingerprint":"ballast-0.1.0","choices":[)";
    EXPECT_EQ(with_plain_ids(reply.body),
              head +
                  R"({"text":" upon","index":0,"logprobs":null,"finish_reason":null}]})"
                  "\n\n" +
                  head +
                  R"({"text":"","index":0,"logprobs":null,"finish_reason":"stop"}]})"
                  "\n\n" +
                  "data: [DONE]\n\n");
}

TEST(Completions, PromptsMayBeTextOrIdsOneOrMany) {
    ApiServer server(say({"x"}));
    const auto prompt_of = [&](const OrderedJson& prompt) {
        const auto reply = server.post(kPath, completion_body({{"prompt", prompt}}));
        EXPECT_EQ(reply.status, 200) << reply.body;
        return server.last_job().prompt;
    };
    EXPECT_EQ(prompt_of("ab"), (std::vector<TokenId>{FakeTokenizer::kBos, 'a', 'b'}));
    EXPECT_EQ(prompt_of("<s>ab"), (std::vector<TokenId>{FakeTokenizer::kBos, 'a', 'b'}));
    EXPECT_EQ(prompt_of({"a", "b"}), (std::vector<TokenId>{FakeTokenizer::kBos, 'b'}));
    EXPECT_EQ(prompt_of({97, 98}), (std::vector<TokenId>{'a', 'b'}));
    EXPECT_EQ(prompt_of({{97}, {98, 99}}), (std::vector<TokenId>{'b', 'c'}));
}

TEST(Completions, SeveralPromptsGiveChoicesInOrder) {
    const auto script = [](const runtime::Job& job) {
        say({std::string(1, static_cast<char>(job.prompt.back()))})(job);
    };
    ApiServer server(script);
    const auto reply =
        server.post(kPath, completion_body({{"prompt", {"a", "b"}}, {"n", 2}, {"echo", true}}));
    const auto json = OrderedJson::parse(reply.body);
    ASSERT_EQ(json["choices"].size(), 4U);
    const char* expected[] = {"aa", "aa", "bb", "bb"};
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(json["choices"][i]["index"], i);
        EXPECT_EQ(json["choices"][i]["text"], expected[i]);
    }
    EXPECT_EQ(json["usage"]["prompt_tokens"], 14);  // two prompts of seven
    EXPECT_EQ(json["usage"]["completion_tokens"], 12);
}

TEST(Completions, TheDefaultLengthIsSixteen) {
    ApiServer server(say({"x"}));
    ASSERT_EQ(server.post(kPath, completion_body()).status, 200);
    EXPECT_EQ(server.last_job().max_tokens, 16);
    ASSERT_EQ(server.post(kPath, completion_body({{"max_tokens", 0}})).status, 200);
    EXPECT_EQ(server.last_job().max_tokens, 0);
    ASSERT_EQ(server.post(kPath, completion_body({{"n_predict", -1}})).status, 200);
    EXPECT_EQ(server.last_job().max_tokens, 195);
}

TEST(Completions, LogprobsHaveOffsetsInCharacters) {
    const auto script = [](const runtime::Job& job) {
        job.sink->on_start();
        runtime::TextDelta delta = token("é!");
        runtime::TokenLogprobs first;
        first.chosen = {1, "é", -0.25F};
        first.top = {{1, "é", -0.25F}};
        runtime::TokenLogprobs second;
        second.chosen = {2, "!", -0.5F};
        second.top = {{2, "!", -0.5F}, {3, "\xC3", -2.0F}};
        delta.logprobs = {first, second};
        job.sink->on_text(std::move(delta));
        job.sink->on_finish(runtime::FinishReason::kStop, some_stats());
    };
    ApiServer server(script);
    const auto reply = server.post(kPath, completion_body({{"logprobs", 2}}));
    EXPECT_EQ(OrderedJson::parse(reply.body)["choices"][0]["logprobs"].dump(),
              R"({"tokens":["é","!"],"token_logprobs":[-0.25,-0.5],"top_logprobs":[{"é":-0.25},)"
              R"({"!":-0.5,"bytes:\\xc3":-2.0}],"text_offset":[0,1]})");
}

TEST(Completions, WorkWithoutAChatTemplate) {
    ApiServer server(say({"x"}), ApiSetup{});
    EXPECT_EQ(server.post(kPath, completion_body()).status, 200);
    const ClientReply chat = server.post("/v1/chat/completions", chat_body());
    EXPECT_EQ(chat.status, 400);
    EXPECT_NE(error_of(chat).message.find("--chat-template FILE"), std::string::npos);
}

}  // namespace
}  // namespace ballast::test
