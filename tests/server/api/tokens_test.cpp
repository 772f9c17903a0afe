// SPDX-License-Identifier: MIT
// The small endpoints: models, tokenize, detokenize, apply-template, metrics.
#include <gtest/gtest.h>

#include "tests/server/api/api_fixture.h"

namespace ballast::test {
namespace {

OrderedJson answer(const ApiServer& server, const std::string& path, const OrderedJson& body) {
    const ClientReply reply = server.post(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return OrderedJson::parse(reply.body);
}

TEST(Models, AreListedAndFoundByIdAndAlias) {
    ApiSetup setup = chat_setup();
    setup.api.model_alias = "my/small:one";
    ApiServer server(say({"x"}), setup);
    const auto list = OrderedJson::parse(fetch(server.port(), get("/v1/models")).body);
    EXPECT_EQ(list["object"], "list");
    ASSERT_EQ(list["data"].size(), 2U);
    EXPECT_EQ(list["data"][0]["id"], "tiny");
    EXPECT_EQ(list["data"][0]["object"], "model");
    EXPECT_EQ(list["data"][0]["created"], 1'600'000'000);
    EXPECT_EQ(list["data"][0]["owned_by"], "ballast");
    EXPECT_EQ(list["data"][1]["id"], "my/small:one");
    for (const char* path : {"/v1/models/tiny",
                             "/v1/models/TINY",
                             "/v1/models/my/small:one",
                             "/v1/models/my%2Fsmall%3Aone"}) {
        const ClientReply reply = fetch(server.port(), get(path));
        EXPECT_EQ(reply.status, 200) << path;
        EXPECT_EQ(OrderedJson::parse(reply.body)["id"], "tiny");
    }
    EXPECT_EQ(server.post("/v1/chat/completions", chat_body({{"model", "MY/small:one"}})).status,
              200);
}

TEST(Tokens, TokenizeAsLlamaServerDoes) {
    ApiServer server(say({"x"}));
    EXPECT_EQ(answer(server, "/tokenize", {{"content", "a<s>"}}).dump(), R"({"tokens":[97,256]})");
    EXPECT_EQ(answer(server, "/tokenize", {{"content", "a"}, {"add_special", true}}).dump(),
              R"({"tokens":[256,97]})");
    EXPECT_EQ(answer(server, "/tokenize", {{"content", "<s>"}, {"parse_special", false}}).dump(),
              R"({"tokens":[60,115,62]})");
    EXPECT_EQ(answer(server, "/tokenize", {{"content", "aé"}, {"with_pieces", true}}).dump(),
              R"({"tokens":[{"id":97,"piece":"a"},{"id":195,"piece":[195]},)"
              R"({"id":169,"piece":[169]}]})");
}

TEST(Tokens, DetokenizeGivesTheTextBack) {
    ApiServer server(say({"x"}));
    EXPECT_EQ(answer(server, "/detokenize", {{"tokens", {256, 97, 195, 169}}}).dump(),
              R"({"content":"<s>aé"})");
    EXPECT_EQ(answer(server, "/detokenize", {{"tokens", {195}}}).dump(), R"({"content":"�"})");
    const ClientReply bad = server.post("/detokenize", {{"tokens", {97, 260}}});
    EXPECT_EQ(bad.status, 400);
    EXPECT_EQ(error_of(bad).param, "tokens[1]");
}

TEST(Tokens, ApplyTemplateShowsThePrompt) {
    ApiServer server(say({"x"}));
    EXPECT_EQ(answer(server,
                     "/apply-template",
                     {{"messages", {{{"role", "user"}, {"content", "<|im_end|>"}}}}})
                  .dump(),
              R"({"prompt":"<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n"})");
}

TEST(MetricsRoute, IsPlainTextOfTheRightVersion) {
    ApiServer server(say({"x"}));
    ASSERT_EQ(server.post("/v1/chat/completions", chat_body()).status, 200);
    ASSERT_EQ(server.post("/v1/completions", completion_body({{"n", 0}})).status, 400);
    const ClientReply reply = fetch(server.port(), get("/metrics"));
    EXPECT_EQ(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    for (const char* line :
         {R"(ballast_requests_total{endpoint="chat_completions",outcome="stop"} 1)",
          R"(ballast_requests_total{endpoint="completions",outcome="invalid"} 1)",
          R"(ballast_http_requests_total{code="200",endpoint="/v1/chat/completions"} 1)",
          R"(ballast_http_requests_total{code="400",endpoint="/v1/completions"} 1)"}) {
        EXPECT_NE(reply.body.find(line), std::string::npos) << line;
    }
    EXPECT_EQ(reply.body.find("tiny"), std::string::npos);
}

}  // namespace
}  // namespace ballast::test
