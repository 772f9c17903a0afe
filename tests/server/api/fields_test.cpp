// SPDX-License-Identifier: MIT
// Every field of the OpenAI document: honoured, without effect, or refused by name.
#include <gtest/gtest.h>

#include "tests/server/api/api_fixture.h"

namespace ballast::test {
namespace {

const std::string kChat = "/v1/chat/completions";

TEST(Fields, KnownFieldsWithoutEffectAreAccepted) {
    ApiServer server(say({"x"}));
    const OrderedJson accepted[] = {
        {{"user", "u"}},
        {{"safety_identifier", "u"}},
        {{"metadata", {{"a", "b"}}}},
        {{"store", true}},
        {{"service_tier", "auto"}},
        {{"verbosity", "low"}},
        {{"prediction", {{"type", "content"}, {"content", "x"}}}},
        {{"prompt_cache_key", "k"}},
        {{"prompt_cache_retention", "24h"}},
        {{"parallel_tool_calls", false}},
        {{"modalities", {"text"}}},
        {{"tools", OrderedJson::array()}},
        {{"tool_choice", "none"}},
        {{"functions", OrderedJson::array()}},
        {{"response_format", {{"type", "text"}}}},
        {{"reasoning_effort", "none"}},
        {{"stream", true}, {"stream_options", {{"include_obfuscation", true}}}},
        {{"some_field_of_a_later_version", {1, 2}}},
        {{"typical_p", 1}},
        {{"grammar", ""}},
    };
    for (const OrderedJson& more : accepted) {
        const ClientReply reply = server.post(kChat, chat_body(more));
        EXPECT_EQ(reply.status, 200) << more << reply.body;
    }
}

TEST(Fields, NullCountsAsAbsent) {
    ApiServer server(say({"x"}));
    for (const char* field : {"temperature",
                              "top_p",
                              "n",
                              "stream",
                              "stream_options",
                              "stop",
                              "max_tokens",
                              "max_completion_tokens",
                              "presence_penalty",
                              "frequency_penalty",
                              "logit_bias",
                              "logprobs",
                              "top_logprobs",
                              "seed",
                              "tools",
                              "tool_choice",
                              "response_format",
                              "user",
                              "functions",
                              "function_call",
                              "modalities",
                              "audio",
                              "web_search_options",
                              "reasoning_effort"}) {
        const ClientReply reply = server.post(kChat, chat_body({{field, nullptr}}));
        EXPECT_EQ(reply.status, 200) << field << reply.body;
    }
}

TEST(Fields, WhatWouldChangeTheMeaningIsRefusedByName) {
    ApiServer server(say({"x"}));
    const OrderedJson tool = {{"type", "function"}, {"function", {{"name", "f"}}}};
    const std::pair<OrderedJson, const char*> refused[] = {
        {{{"tools", {tool}}}, "tools"},
        {{{"tool_choice", "auto"}}, "tool_choice"},
        {{{"tool_choice", "required"}}, "tool_choice"},
        {{{"tool_choice", tool}}, "tool_choice"},
        {{{"functions", {{{"name", "f"}}}}}, "functions"},
        {{{"function_call", "auto"}}, "function_call"},
        {{{"response_format", {{"type", "json_object"}}}}, "response_format"},
        {{{"response_format", {{"type", "json_schema"}}}}, "response_format"},
        {{{"modalities", {"text", "audio"}}}, "modalities"},
        {{{"audio", {{"voice", "x"}}}}, "audio"},
        {{{"web_search_options", OrderedJson::object()}}, "web_search_options"},
        {{{"grammar", "root ::= \"a\""}}, "grammar"},
        {{{"guided_json", OrderedJson{{"type", "object"}}}}, "guided_json"},
        {{{"mirostat", 2}}, "mirostat"},
        {{{"continue_final_message", true}}, "continue_final_message"},
        {{{"chat_template_kwargs", {{"messages", "x"}}}}, "chat_template_kwargs.messages"},
        {{{"messages", {{{"role", "tool"}, {"content", "x"}}}}}, "messages[0].role"},
        {{{"messages", {{{"role", "assistant"}, {"content", "x"}, {"tool_calls", {tool}}}}}},
         "messages[0].tool_calls"},
        {{{"messages",
           {{{"role", "user"},
             {"content",
              {{{"type", "image_url"}, {"image_url", {{"url", "http://10.0.0.1/"}}}}}}}}}},
         "messages[0].content[0].type"},
    };
    for (const auto& [more, param] : refused) {
        const ClientReply reply = server.post(kChat, chat_body(more));
        EXPECT_EQ(reply.status, 400) << more;
        const ErrorBody error = error_of(reply);
        EXPECT_EQ(error.param, param) << more;
        EXPECT_EQ(error.code, "unsupported_parameter") << more;
    }
    EXPECT_EQ(server.engine->jobs_taken(), 0);
}

TEST(Fields, CompletionsRefuseTheirOwn) {
    ApiServer server(say({"x"}));
    const auto param_of = [&](const OrderedJson& more) {
        const ClientReply reply = server.post("/v1/completions", completion_body(more));
        EXPECT_EQ(reply.status, 400) << more;
        return error_of(reply).param;
    };
    EXPECT_EQ(param_of({{"suffix", "x"}}), "suffix");
    EXPECT_EQ(param_of({{"best_of", 2}}), "best_of");
    EXPECT_EQ(param_of({{"echo", true}, {"logprobs", 1}}), "logprobs");
    EXPECT_EQ(param_of({{"logprobs", 21}}), "logprobs");
    EXPECT_EQ(param_of({{"prompt", OrderedJson::array()}}), "prompt");
    EXPECT_EQ(param_of({{"prompt", {1, "a"}}}), "prompt[1]");
    EXPECT_EQ(param_of({{"prompt", {260}}}), "prompt[0]");
    EXPECT_EQ(param_of({{"prompt", {-1}}}), "prompt[0]");
    EXPECT_EQ(param_of({{"prompt", {OrderedJson::array()}}}), "prompt[0]");
    EXPECT_EQ(server.post("/v1/completions", completion_body({{"best_of", 1}})).status, 200);
}

TEST(Fields, MoreRepliesThanTheQueueHoldsIsNotWorthARetry) {
    ApiSetup setup = chat_setup();
    setup.queue.depth = 3;
    ApiServer server(say({"x"}), setup);
    const ClientReply reply = server.post(kChat, chat_body({{"n", 4}}));
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(error_of(reply).param, "n");
}

}  // namespace
}  // namespace ballast::test
