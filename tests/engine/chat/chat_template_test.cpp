// SPDX-License-Identifier: MIT
// The interface of ChatTemplate: errors, time, variables, threads.
#include "engine/chat/chat_template.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ballast::chat {
namespace {

using Json = nlohmann::ordered_json;

Result<std::string> render(const std::string& source,
                           const Json& variables = Json::object(),
                           std::int64_t unix_seconds = 0) {
    auto parsed = ChatTemplate::parse(source);
    if (!parsed) {
        return tl::unexpected(parsed.error());
    }
    return parsed->render(variables, unix_seconds);
}

std::string failure(const std::string& source, const Json& variables = Json::object()) {
    const auto result = render(source, variables);
    return result ? "no failure" : result.error().message;
}

TEST(ChatTemplate, KeepsItsSource) {
    const auto parsed = ChatTemplate::parse("a\n{{ b }}\n");
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->source(), "a\n{{ b }}\n");
}

TEST(ChatTemplate, NamesTheLineOfASyntaxError) {
    EXPECT_EQ(failure("a\n{% if x %}\n{{ 1 + }}\n{% endif %}"),
              "line 3: expected an expression, found the end of the tag");
    EXPECT_EQ(failure("a\n{% include 'x' %}"), "line 2: '{% include %}' is not supported here");
    EXPECT_EQ(failure("\n\n{% if x %}"),
              "line 3: expected '{% endif %}', found the end of the template");
    EXPECT_EQ(failure("{{ \xFF }}"), "the chat template is not valid UTF-8");
}

TEST(ChatTemplate, NamesTheLineAndTheCulpritOfAnErrorAtRunTime) {
    EXPECT_EQ(failure("a\n\n{{ missing.attribute }}"), "line 3: 'missing' is undefined");
    EXPECT_EQ(failure("{% if true %}\n{{ 'a' + 1 }}{% endif %}"),
              "line 2: can only concatenate str (not \"int\") to str");
    EXPECT_EQ(failure("{{ x|nothing }}"), "line 1: No filter named 'nothing' found.");
    EXPECT_EQ(failure("{{ l.append(1) }}", {{"l", Json::array()}}),
              "line 1: access to attribute 'append' of 'list' object is unsafe.");
}

TEST(ChatTemplate, PassesTheTemplatesOwnErrorWordForWord) {
    EXPECT_EQ(
        failure(
            "{% macro m() %}\n{{ raise_exception('Only users: ' ~ 1) }}{% endmacro %}{{ m() }}"),
        "Only users: 1");
}

TEST(ChatTemplate, FormatsTheTimeItIsGiven) {
    EXPECT_EQ(
        render("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}", Json::object(), 951782400).value_or(""),
        "2000-02-29 00:00:00");
    EXPECT_EQ(render("{{ strftime_now('%Q %') }}").value_or(""), "%Q %");
}

TEST(ChatTemplate, KeepsTheOrderOfKeys) {
    const Json variables = Json::parse(R"({"x": {"z": 1, "a": {"y": 2, "b": 3}}})");
    EXPECT_EQ(render("{{ x|tojson }}", variables).value_or(""),
              R"({"z": 1, "a": {"y": 2, "b": 3}})");
}

TEST(ChatTemplate, NeedsAnObjectOfVariables) {
    EXPECT_FALSE(render("x", Json::array()));
    EXPECT_FALSE(render("{{ x }}", {{"x", Json::binary({1, 2})}}));
}

TEST(ChatTemplate, TakesStringsThatAreNotUtf8WithoutHarm) {
    const Json variables = {{"x", std::string("a\xE4\xB8z\xFF\xF0\x9F\x98")}};
    const auto result = render(
        "{{ x|length }} {{ x|upper }}{{ x[::-1] }}{{ x.split() }}{{ x|tojson }}{{ [x] }}"
        "{{ x|trim }}{{ x.rstrip('q') }}{{ x.title() }}{% for c in x %}{{ c }}{% endfor %}",
        variables);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->starts_with("8 A\xE4\xB8Z"));
}

TEST(ChatTemplate, RendersFromSeveralThreadsAtOnce) {
    const auto parsed = ChatTemplate::parse(
        "{% macro m(x) %}<{{ x ~ 'constant'|upper }}>{% endmacro %}"
        "{% for a in l %}{{ m(a) }}{{ loop.index }}{% endfor %}");
    ASSERT_TRUE(parsed);
    std::vector<std::string> results(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < results.size(); ++i) {
        threads.emplace_back([&parsed, &results, i] {
            for (int round = 0; round < 50; ++round) {
                results[i] = parsed->render({{"l", {i, i + 1}}}, 0).value_or("failed");
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(results[0], "<0CONSTANT>1<1CONSTANT>2");
    EXPECT_EQ(results[3], "<3CONSTANT>1<4CONSTANT>2");
}

}  // namespace
}  // namespace ballast::chat
