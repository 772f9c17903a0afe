// SPDX-License-Identifier: MIT
// A template from an untrusted file cannot hang, exhaust memory or overflow the stack.
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/chat/chat_template.h"

namespace ballast::chat {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDeep = 100'000;

/// Where the default limits would only make the test slow.
constexpr RenderLimits kSmall{.steps_max = 1'000'000, .memory_bytes_max = 16U << 20};

std::string repeated(const std::string& text, std::size_t times) {
    std::string out;
    out.reserve(text.size() * times);
    for (std::size_t i = 0; i < times; ++i) {
        out += text;
    }
    return out;
}

Result<std::string> render(const std::string& source,
                           const RenderLimits& limits = {},
                           const Json& variables = Json::object()) {
    auto parsed = ChatTemplate::parse(source);
    if (!parsed) {
        return tl::unexpected(parsed.error());
    }
    return parsed->render(variables, 0, limits);
}

/// The error's message; a rendering that succeeds gives a text that no check accepts.
std::string failure(const std::string& source,
                    const RenderLimits& limits = {},
                    const Json& variables = Json::object()) {
    const auto result = render(source, limits, variables);
    if (result) {
        return "no failure";
    }
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidRequest);
    return result.error().message;
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos
               ? testing::AssertionSuccess()
               : testing::AssertionFailure() << "\"" << text << "\" lacks \"" << part << "\"";
}

TEST(TemplateLimits, StopsLoopsThatWouldTakeTooLong) {
    const std::string loops =
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    EXPECT_TRUE(contains(failure(loops, {.steps_max = 2'000'000}), "too many steps"));
    EXPECT_TRUE(contains(failure("{% for a in range(100) %}{% endfor %}", {.steps_max = 50}),
                         "too many steps"));
    EXPECT_TRUE(render("{% for a in range(100) %}{% endfor %}", {.steps_max = 5000}));
}

TEST(TemplateLimits, CountsWorkThatIsNotALoopOfTheTemplate) {
    const RenderLimits limits{.steps_max = 100'000};
    const std::string setup = "{% set a = 'x' * 1000000 %}{% for i in range(1000) %}";
    for (const char* body : {"{% set b = a.upper() %}",
                             "{% set b = a|replace('x', 'y') %}",
                             "{% set b = a[::-1] %}",
                             "{% set b = a == a ~ '' %}",
                             "{% set b = 'y' in a %}",
                             "{% set b = a|length + a.count('y') %}",
                             "{% set b = [a]|tojson %}",
                             "{% set b = a.split('y') %}",
                             "{% set b = a.strip(a) %}",
                             "{% set b = {a: 1}[a ~ ''] %}",
                             "{% set b = a|list %}"}) {
        EXPECT_TRUE(contains(failure(setup + body + "{% endfor %}", limits), "too many steps"))
            << body;
    }
}

TEST(TemplateLimits, SearchesInLinearTime) {
    // Each would take hours if time grew with the product of the two sizes.
    const std::string texts =
        "{% set a = 'a' * 4000000 %}{% set b = 'a' * 2000000 %}{% set c = 'b' ~ b %}"
        "{% set d = b ~ 'b' %}";
    const auto result = render(texts +
                               "{{ d in a }} {{ a.find(d) }} {{ a.rfind(c) }} {{ a.count(d) }} "
                               "{{ a.split(d)|length }} {{ a.rsplit(c)|length }} "
                               "{{ a.replace(d, '')|length }} {{ a.partition(d)[1] }}|"
                               "{{ a.rpartition(c)[1] }}");
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(*result, "False -1 -1 0 1 1 4000000 |");
}

TEST(TemplateLimits, RefusesDeepNestingInTheSource) {
    for (const auto& [open, close] : {std::pair{"(", ")"},
                                      {"[", "]"},
                                      {"{1:", "}"},
                                      {"-", ""},
                                      {"not ", ""},
                                      {"f(", ")"},
                                      {"a[", "]"},
                                      {"1 if 1 else ", ""},
                                      {"x is eq ", ""},
                                      {"1|d(", ")"}}) {
        const std::string source =
            "{{ " + repeated(open, kDeep) + "1" + repeated(close, kDeep) + " }}";
        EXPECT_NE(failure(source), "no failure") << open;
    }
    for (const char* open : {"{% if 1 %}", "{% for a in b %}", "{% set x %}", "{% macro m() %}"}) {
        EXPECT_TRUE(contains(failure(repeated(open, kDeep)), "nested deeper")) << open;
    }
    EXPECT_TRUE(
        contains(failure("{% set " + repeated("(", kDeep) + "a" + repeated(")", kDeep) + " = 1 %}"),
                 "nested deeper"));
}

TEST(TemplateLimits, RefusesChainsThatNestInTheTree) {
    for (const char* link : {".a", "[0]", "()", "|upper", " if 1"}) {
        EXPECT_TRUE(contains(failure("{{ x" + repeated(link, kDeep) + " }}"), "too many parts"))
            << link;
    }
    // Each pair of parentheses adds a chain to the one inside it.
    std::string layered = "x";
    for (int i = 0; i < 100; ++i) {
        layered = "(" + layered + repeated(".a", 100) + ")";
    }
    EXPECT_TRUE(contains(failure("{{ " + layered + " }}"), "too many parts"));
}

TEST(TemplateLimits, TakesLongFlatExpressions) {
    const auto sum = render("{{ 0" + repeated(" + 1", kDeep) + " }}");
    ASSERT_TRUE(sum) << sum.error().message;
    EXPECT_EQ(*sum, "100000");
    EXPECT_TRUE(render("{{ 1" + repeated(" or 0", kDeep) + " }}"));
    EXPECT_TRUE(render("{{ 1" + repeated(" ~ 'a'", kDeep) + " }}"));
    EXPECT_TRUE(render("{% if 0 %}" + repeated("{% elif 0 %}", kDeep) + "{% endif %}"));
    EXPECT_TRUE(render("{{ [" + repeated("1, ", kDeep) + "]|length }}"));
}

TEST(TemplateLimits, RefusesToBuildLargeValues) {
    for (const char* expression : {"'x' * 1000000000",
                                   "[1] * 1000000000",
                                   "(1, 2) * 2000000000",
                                   "'x' * (2 ** 100)",
                                   "'x'.ljust(1000000000)",
                                   "'x'.center(1000000000)",
                                   "'x'.zfill(1000000000)",
                                   "'x'|indent(1000000000, true)",
                                   "'x'|center(1000000000)",
                                   "'%1000000000d' % 1",
                                   "'{:1000000000}'.format(1)",
                                   "'%.1000000000f' % 1.0",
                                   "[1]|tojson(indent=1000000000)",
                                   "[1]|batch(1000000000, 0)|list",
                                   "[1]|slice(1000000000)|list",
                                   "range(1000000000)",
                                   "('x' * 1000000)|replace('', 'y' * 1000000)",
                                   "([1] * 1000000)|join('y' * 1000000)",
                                   "('x' * 10000000)|list",
                                   "('x ' * 7000000).split()",
                                   "('x' * 10000000).split('x')",
                                   "('<' * 10000000)|escape",
                                   "[['x' * 10000000] * 100]|string",
                                   "[['x' * 10000000] * 100]|tojson"}) {
        EXPECT_NE(failure("{{ (" + std::string(expression) + ")|length }}", kSmall), "no failure")
            << expression;
    }
}

TEST(TemplateLimits, RefusesValuesThatGrowByDoubling) {
    const auto doubling = [](const std::string& start, const std::string& step) {
        return "{% set ns = namespace(v=" + start +
               ") %}{% for i in range(100) %}{% set ns.v = " + step + " %}{% endfor %}{{ ns.v }}";
    };
    EXPECT_TRUE(contains(failure(doubling("'x'", "ns.v ~ ns.v"), kSmall), "memory"));
    EXPECT_TRUE(contains(failure(doubling("'x'", "ns.v + ns.v"), kSmall), "memory"));
    EXPECT_TRUE(contains(failure(doubling("[1]", "ns.v + ns.v"), kSmall), "memory"));
    // Shared parts take no memory until they are printed or compared.
    EXPECT_NE(failure(doubling("[1]", "[ns.v, ns.v]"), kSmall), "no failure");
    const std::string pair =
        "{% set a = namespace(v=[1]) %}{% set b = namespace(v=[1]) %}"
        "{% for i in range(60) %}{% set a.v = [a.v, a.v] %}"
        "{% set b.v = [b.v, b.v] %}{% endfor %}";
    EXPECT_TRUE(contains(failure(pair + "{{ a.v == b.v }}", kSmall), "too many steps"));
    EXPECT_TRUE(contains(failure(pair + "{{ a.v < b.v }}", kSmall), "too many steps"));
}

TEST(TemplateLimits, GivesMemoryBackWhenValuesDie) {
    const std::string source =
        "{% for i in range(100) %}{% set a = 'x' * 1000000 %}{% endfor %}done";
    const RenderLimits limits{.memory_bytes_max = 4U << 20};
    const auto result = render(source, limits);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(*result, "done");
    EXPECT_TRUE(contains(failure("{% set a = 'x' * 5000000 %}", limits), "memory"));
}

TEST(TemplateLimits, RefusesDeepValues) {
    for (const char* step : {"[ns.v]",
                             "(ns.v,)",
                             "{'a': ns.v}",
                             "[ns.v]|map('list')",
                             "cycler(ns.v)",
                             "{'a': ns.v}.items()",
                             "[ns.v].index"}) {
        const std::string source =
            "{% set ns = namespace(v=[]) %}{% for i in range(100000) %}{% set ns.v = " +
            std::string(step) + " %}{% endfor %}";
        EXPECT_TRUE(contains(failure(source), "nested")) << step;
    }
    Json nested = 1;
    for (std::size_t i = 0; i < kDeep; ++i) {
        Json outer = Json::array();
        outer.push_back(std::move(nested));
        nested = std::move(outer);
    }
    Json variables = Json::object();
    variables["x"] = std::move(nested);
    EXPECT_TRUE(contains(failure("{{ x }}", {}, variables), "nested"));
    EXPECT_EQ(render("unused", {}, variables).value_or(""), "unused");
}

TEST(TemplateLimits, StopsEndlessRecursion) {
    EXPECT_TRUE(contains(failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "deeply"));
    EXPECT_TRUE(contains(failure("{% macro m(x) %}{% for a in x %}{% if a %}{% set b %}{{ m(x) }}"
                                 "{% endset %}{% endif %}{% endfor %}{% endmacro %}{{ m([1]) }}"),
                         "deeply"));
    EXPECT_TRUE(
        contains(failure("{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{{ caller }}"
                         "{% endmacro %}{% call m() %}{% endcall %}"),
                 "deeply"));
    EXPECT_TRUE(
        contains(failure("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}"), "deeply"));
    const std::string wide = "{% macro m() %}{{ " + repeated("(1 + ", 70) + "m()|length" +
                             repeated(")", 70) + " }}{% endmacro %}{{ m() }}";
    EXPECT_TRUE(contains(failure(wide), "deeply"));
}

TEST(TemplateLimits, AllowsTheRecursionThatRealTemplatesNeed) {
    const std::string source =
        "{% macro m(n) %}{% for i in [n] %}{% if i > 0 %}{{ m(i - 1) }}{% else %}end{% endif %}"
        "{% endfor %}{% endmacro %}{{ m(100) }}";
    const auto result = render(source);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(*result, "end");
    EXPECT_TRUE(contains(failure(source, {.depth_max = 50}), "deeply"));
}

TEST(TemplateLimits, StopsAtTheOutputLimit) {
    const RenderLimits limits{.output_bytes_max = 10};
    EXPECT_EQ(render("{{ 'x' * 10 }}", limits).value_or(""), "xxxxxxxxxx");
    EXPECT_TRUE(contains(failure("{{ 'x' * 11 }}", limits), "longer than 10 bytes"));
    EXPECT_TRUE(contains(failure("{% for i in range(11) %}x{% endfor %}", limits), "longer"));
    EXPECT_TRUE(contains(failure("12345{% set x %}123456{% endset %}", limits), "longer"));
    EXPECT_EQ(render("12345{% set x %}12345{% endset %}{{ x[:5] }}", limits).value_or(""),
              "1234512345");
}

TEST(TemplateLimits, LetsNothingLeakThroughCycles) {
    // Seen by LeakSanitizer: each of these refers to itself.
    EXPECT_TRUE(render("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns] %}"));
    EXPECT_TRUE(render("{% macro m() %}{{ m }}{% endmacro %}{% set q = m %}{{ m() }}"));
    EXPECT_TRUE(render("{% for a in [1] %}{{ loop.changed(loop) }}{% endfor %}"));
    EXPECT_TRUE(
        render("{% set ns = namespace() %}{% for a in [1] %}{% set ns.l = loop %}"
               "{{ loop.changed([ns]) }}{% endfor %}{{ ns.l.changed(ns.l) }}"));
    EXPECT_TRUE(
        render("{% set ns = namespace() %}{% for a in [1, 2] %}{% macro m() %}{{ a }}"
               "{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m() }}"));
}

TEST(TemplateLimits, RefusesALoopThatHasEnded) {
    EXPECT_TRUE(contains(failure("{% set ns = namespace() %}{% for a in [1] recursive %}"
                                 "{% set ns.l = loop %}{% endfor %}{{ ns.l([1]) }}"),
                         "after it has ended"));
}

TEST(TemplateLimits, RefusesIntegersBeyond128Bits) {
    EXPECT_TRUE(contains(failure("{{ 2 ** 200 }}"), "too large"));
    EXPECT_TRUE(contains(failure("{{ 10 ** 38 * 10 }}"), "too large"));
    EXPECT_TRUE(contains(failure("{{ " + std::string(60, '9') + " }}"), "too large"));
    EXPECT_EQ(render("{{ 2 ** 126 }}").value_or(""), "85070591730234615865843651857942052864");
    EXPECT_TRUE(contains(failure("{{ -(-(2 ** 126) * 2) }}"), "too large"));
    EXPECT_TRUE(contains(failure("{{ (-(2 ** 126) * 2) // -1 }}"), "too large"));
    EXPECT_EQ(render("{{ (-(2 ** 126) * 2) % -1 }}").value_or(""), "0");
}

}  // namespace
}  // namespace ballast::chat
