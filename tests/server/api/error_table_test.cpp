// SPDX-License-Identifier: MIT
// Status, type, code and param of every refusal, row by row.
#include <gtest/gtest.h>

#include "server/api/error_reply.h"
#include "tests/server/api/api_fixture.h"

namespace ballast::test {
namespace {

const std::string kChat = "/v1/chat/completions";

void expect_error(const ClientReply& reply,
                  int status,
                  const std::string& type,
                  const std::string& code,
                  const std::string& param) {
    const ErrorBody error = error_of(reply);
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(error.type, type) << reply.body;
    EXPECT_EQ(error.code, code) << reply.body;
    EXPECT_EQ(error.param, param) << reply.body;
    EXPECT_FALSE(error.message.empty());
    EXPECT_FALSE(reply.header("x-request-id").empty());
    EXPECT_EQ(reply.header("content-type"), "application/json");
}

TEST(ErrorTable, BodiesThatAreNoJsonObject) {
    ApiServer server(say({"x"}));
    for (const std::string body : {"",
                                   "{",
                                   "[]",
                                   "\"x\"",
                                   "1",
                                   "null",
                                   "{}x",
                                   "{\"a\":1,}",
                                   "{\"model\":\"\xFF\"}",
                                   "{'a':1}",
                                   "\x00\x01"}) {
        expect_error(fetch(server.port(), post_json(kChat, body)),
                     400,
                     "invalid_request_error",
                     "invalid_json",
                     "null");
    }
}

TEST(ErrorTable, MissingFields) {
    ApiServer server(say({"x"}));
    const auto check = [&](const std::string& path, const char* body, const char* param) {
        expect_error(fetch(server.port(), post_json(path, body)),
                     400,
                     "invalid_request_error",
                     "missing_required_parameter",
                     param);
    };
    check(kChat, "{}", "model");
    check(kChat, R"({"model":null})", "model");
    check(kChat, R"({"model":"tiny"})", "messages");
    check(kChat, R"({"model":"tiny","messages":[{}]})", "messages[0].role");
    check(kChat, R"({"model":"tiny","messages":[{"role":"user"}]})", "messages[0].content");
    check(kChat,
          R"({"model":"tiny","messages":[{"role":"user","content":null}]})",
          "messages[0].content");
    check(kChat,
          R"({"model":"tiny","messages":[{"role":"user","content":[{"type":"text"}]}]})",
          "messages[0].content[0].text");
    check("/v1/completions", R"({"model":"tiny"})", "prompt");
    check("/tokenize", "{}", "content");
    check("/detokenize", "{}", "tokens");
    check("/apply-template", "{}", "messages");
}

TEST(ErrorTable, WrongTypes) {
    ApiServer server(say({"x"}));
    const auto check = [&](const OrderedJson& more, const char* param) {
        expect_error(server.post(kChat, chat_body(more)),
                     400,
                     "invalid_request_error",
                     "invalid_type",
                     param);
    };
    check({{"model", 1}}, "model");
    check({{"messages", "x"}}, "messages");
    check({{"messages", {1}}}, "messages[0]");
    check({{"messages", {{{"role", 1}, {"content", "x"}}}}}, "messages[0].role");
    check({{"messages", {{{"role", "user"}, {"content", 5}}}}}, "messages[0].content");
    check({{"messages", {{{"role", "user"}, {"content", {"x"}}}}}}, "messages[0].content[0]");
    check({{"temperature", "1"}}, "temperature");
    check({{"max_tokens", 1.5}}, "max_tokens");
    check({{"max_tokens", true}}, "max_tokens");
    check({{"n", "2"}}, "n");
    check({{"stream", 1}}, "stream");
    check({{"stop", 5}}, "stop");
    check({{"stop", {"a", 5}}}, "stop[1]");
    check({{"logit_bias", {1}}}, "logit_bias");
    check({{"logit_bias", {{"65", "x"}}}}, "logit_bias.65");
    check({{"seed", "x"}}, "seed");
    check({{"logprobs", 5}}, "logprobs");
    check({{"stream", true}, {"stream_options", true}}, "stream_options");
    check({{"stream", true}, {"stream_options", {{"include_usage", 1}}}},
          "stream_options.include_usage");
    check({{"tools", "x"}}, "tools");
    check({{"response_format", "json"}}, "response_format");
    check({{"metadata", 1}}, "metadata");
    check({{"user", 1}}, "user");
}

TEST(ErrorTable, ValuesOutOfRange) {
    ApiServer server(say({"x"}));
    const auto check = [&](const OrderedJson& more, const char* code, const char* param) {
        expect_error(
            server.post(kChat, chat_body(more)), 400, "invalid_request_error", code, param);
    };
    check({{"temperature", -0.1}}, "decimal_below_min_value", "temperature");
    check({{"temperature", 2.1}}, "decimal_above_max_value", "temperature");
    check({{"top_p", 1.5}}, "decimal_above_max_value", "top_p");
    check({{"presence_penalty", -3}}, "decimal_below_min_value", "presence_penalty");
    check({{"n", 0}}, "integer_below_min_value", "n");
    check({{"n", 9}}, "integer_above_max_value", "n");
    check({{"max_tokens", 0}}, "integer_below_min_value", "max_tokens");
    check({{"max_completion_tokens", -1}}, "integer_below_min_value", "max_completion_tokens");
    check({{"top_k", -2}}, "integer_below_min_value", "top_k");
    check({{"logprobs", true}, {"top_logprobs", 21}}, "integer_above_max_value", "top_logprobs");
    check({{"top_logprobs", 2}}, "invalid_value", "top_logprobs");
    check({{"stop", {"1", "2", "3", "4", "5"}}}, "array_above_max_length", "stop");
    check({{"stop", ""}}, "invalid_value", "stop");
    check({{"logit_bias", {{"260", 1}}}}, "invalid_value", "logit_bias.260");
    check({{"logit_bias", {{"x", 1}}}}, "invalid_value", "logit_bias.x");
    check({{"logit_bias", {{"65", 101}}}}, "decimal_above_max_value", "logit_bias.65");
    check({{"messages", OrderedJson::array()}}, "empty_array", "messages");
    check({{"messages", {{{"role", "wizard"}, {"content", "x"}}}}},
          "invalid_value",
          "messages[0].role");
    check({{"stream_options", {{"include_usage", true}}}}, "invalid_value", "stream_options");
    check({{"reasoning_effort", "huge"}}, "invalid_value", "reasoning_effort");
}

TEST(ErrorTable, NoIntegerIsTooOddToBeRefused) {
    ApiServer server(say({"x"}));
    for (const char* field :
         {"n", "max_tokens", "max_completion_tokens", "top_k", "top_logprobs"}) {
        for (const char* value : {"-2",
                                  "-2147483648",
                                  "2147483648",
                                  "4294967296",
                                  "-9223372036854775808",
                                  "9223372036854775808",
                                  "18446744073709551616",
                                  "1e308",
                                  "-1e308",
                                  "1.5",
                                  "\"1\"",
                                  "[1]",
                                  "{}",
                                  "true"}) {
            const std::string body =
                R"({"model":"tiny","logprobs":true,"messages":[{"role":"user","content":"x"}],")" +
                std::string(field) + "\":" + value + "}";
            const ClientReply reply = fetch(server.port(), post_json(kChat, body));
            EXPECT_EQ(reply.status, 400) << field << " " << value << " " << reply.body;
            EXPECT_EQ(error_of(reply).param, field) << value;
        }
    }
    for (const char* value : {"NaN", "Infinity", "1e999", "0x1", "01", "+1", "1.", ".5"}) {
        const std::string body = std::string(R"({"model":"tiny","n":)") + value + "}";
        EXPECT_EQ(error_of(fetch(server.port(), post_json(kChat, body))).code, "invalid_json");
    }
}

TEST(ErrorTable, ContextOverflow) {
    ApiServer server(say({"x"}));
    const OrderedJson messages = {{{"role", "user"}, {"content", std::string(300, 'a')}}};
    const ClientReply reply = server.post(kChat, chat_body({{"messages", messages}}));
    expect_error(reply, 400, "invalid_request_error", "context_length_exceeded", "messages");
    // BOS, two control tokens a turn, "user\n", "\n", "<|im_start|>assistant\n".
    EXPECT_EQ(error_of(reply).message,
              "This model's maximum context length is 200 tokens. However, your messages resulted "
              "in 320 tokens. Please reduce the length of the messages.");
    const auto json = OrderedJson::parse(reply.body);
    EXPECT_EQ(json["error"]["n_prompt_tokens"], 320);
    EXPECT_EQ(json["error"]["n_ctx"], 200);

    const ClientReply sum = server.post(kChat, chat_body({{"max_tokens", 190}}));
    expect_error(sum, 400, "invalid_request_error", "context_length_exceeded", "messages");
    EXPECT_NE(error_of(sum).message.find("190 in the completion"), std::string::npos);
    EXPECT_EQ(server.engine->jobs_taken(), 0);

    const ClientReply huge =
        server.post("/v1/completions", completion_body({{"prompt", std::string(3 << 20, 'a')}}));
    expect_error(huge, 400, "invalid_request_error", "context_length_exceeded", "prompt");
    EXPECT_NE(error_of(huge).message.find("maximum context length is 200 tokens"),
              std::string::npos);
}

TEST(ErrorTable, UnknownModel) {
    ApiServer server(say({"x"}));
    const ClientReply reply = server.post(kChat, chat_body({{"model", "gpt-4"}}));
    expect_error(reply, 404, "invalid_request_error", "model_not_found", "model");
    EXPECT_NE(error_of(reply).message.find("'tiny'"), std::string::npos);
    expect_error(fetch(server.port(), get("/v1/models/user%2Frepo:Q4")),
                 404,
                 "invalid_request_error",
                 "model_not_found",
                 "model");
}

TEST(ErrorTable, TransportRefusals) {
    ApiSetup setup = chat_setup();
    setup.http.body_bytes_max = 1000;
    ApiServer server(say({"x"}), setup);
    const int port = server.port();
    const char* invalid = "invalid_request_error";
    expect_error(fetch(port, get("/v1/nothing")), 404, invalid, "unknown_url", "null");
    expect_error(fetch(port, get("/v1/models/")), 404, invalid, "unknown_url", "null");
    const ClientReply method = fetch(port, get(kChat));
    expect_error(method, 405, invalid, "null", "null");
    EXPECT_EQ(method.header("allow"), "POST, OPTIONS");
    expect_error(
        fetch(port, post_json(kChat, std::string(1001, ' '))), 413, invalid, "null", "null");
    expect_error(fetch(port,
                       "POST " + kChat +
                           " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
                           "Content-Type: text/plain\r\n\r\n{}"),
                 415,
                 invalid,
                 "null",
                 "null");
    expect_error(fetch(port, "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
                 403,
                 "permission_error",
                 "null",
                 "null");
    expect_error(fetch(port, "GET /v1/models HTTP/1.1\r\n\r\n"), 400, invalid, "null", "null");
    expect_error(fetch(port, get("/x", "A: " + std::string(20000, 'a') + "\r\n")),
                 431,
                 invalid,
                 "null",
                 "null");
}

TEST(ErrorTable, WhatTheEngineReportsBeforeTheFirstToken) {
    const auto failing = [](ErrorCode code) {
        return [code](const runtime::Job& job) { job.sink->on_error({code, "It did not work."}); };
    };
    for (const bool stream : {false, true}) {
        {
            ApiServer server(failing(ErrorCode::kInternal));
            const auto reply = server.post(kChat, chat_body({{"stream", stream}}));
            expect_error(reply, 500, "server_error", "null", "null");
        }
        {
            ApiServer server(failing(ErrorCode::kDeviceLost));
            const auto reply = server.post(kChat, chat_body({{"stream", stream}}));
            expect_error(reply, 503, "server_error", "device_unavailable", "null");
            EXPECT_FALSE(reply.header("retry-after").empty());
        }
    }
}

TEST(ErrorTable, AnErrorInMidStreamIsAnEventWithoutDone) {
    ApiServer server([](const runtime::Job& job) {
        job.sink->on_start();
        job.sink->on_text(token("Hel"));
        job.sink->on_error({ErrorCode::kInternal, "It broke."});
    });
    HttpClient client(server.port());
    client.send(post_json(kChat, chat_body({{"stream", true}}).dump()));
    const ClientReply reply = client.read_reply();
    EXPECT_EQ(reply.status, 200);
    EXPECT_TRUE(reply.body.ends_with(
        R"(data: {"error":{"message":"It broke.","type":"server_error","param":null,"code":null}})"
        "\n\n"))
        << reply.body;
    EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
    EXPECT_TRUE(client.closed_within(std::chrono::seconds(5)));
    EXPECT_NE(server.metrics().find(
                  R"(ballast_requests_total{endpoint="chat_completions",outcome="error"} 1)"),
              std::string::npos);
}

TEST(ErrorTable, EveryErrorCodeHasAStatus) {
    const std::pair<ErrorCode, int> table[] = {{ErrorCode::kInvalidRequest, 400},
                                               {ErrorCode::kNotFound, 404},
                                               {ErrorCode::kTooLarge, 413},
                                               {ErrorCode::kOverloaded, 429},
                                               {ErrorCode::kCancelled, 503},
                                               {ErrorCode::kCorruptFile, 500},
                                               {ErrorCode::kUnsupported, 400},
                                               {ErrorCode::kOutOfMemory, 503},
                                               {ErrorCode::kDeviceLost, 503},
                                               {ErrorCode::kTimeout, 503},
                                               {ErrorCode::kIo, 500},
                                               {ErrorCode::kInternal, 500}};
    for (const auto& [code, status] : table) {
        EXPECT_EQ(api::from_error({code, "x"}).status, status) << static_cast<int>(code);
    }
}

TEST(ErrorTable, ATemplatesOwnErrorIsA400WithItsText) {
    ApiSetup setup;
    setup.chat_template = "{{ raise_exception('Roles must alternate.') }}";
    ApiServer server(say({"x"}), setup);
    const ClientReply reply = server.post(kChat, chat_body());
    EXPECT_EQ(reply.status, 400);
    EXPECT_NE(error_of(reply).message.find("Roles must alternate."), std::string::npos);
}

}  // namespace
}  // namespace ballast::test
