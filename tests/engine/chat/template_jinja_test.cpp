// SPDX-License-Identifier: MIT
// Each construct of the language against what Jinja2 3.1.6 makes of it
// (tests/data/jinja_cases.jsonl, written by tests/data/make_jinja_cases.py).
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/chat/chat_template.h"
#include "tests/support/test_data.h"

namespace ballast::chat {
namespace {

using Json = nlohmann::ordered_json;

/// 2026-01-15 12:34:56 UTC.
constexpr std::int64_t kMoment = 1768480496;

/// Templates whose result differs on purpose, with the reason.
const std::set<std::string> kDifferent = {
    // Case mappings and digits beyond the common scripts (template_text.h).
    "{{ 'straße ÿ ǆ'|upper }}",
    "{{ 'İ'|lower|length }}",
    "{{ '٣'.isdigit() }}",
    // Blocks do not exist here, so neither does the reference to them; it counts as undefined.
    "{{ self }}",
};

Result<std::string> render(const std::string& source, const Json& variables) {
    auto parsed = ChatTemplate::parse(source);
    if (!parsed) {
        return tl::unexpected(parsed.error());
    }
    return parsed->render(variables, kMoment);
}

std::string shown(const Result<std::string>& result) {
    return result ? "«" + *result + "»" : "error: " + result.error().message;
}

TEST(TemplateJinja, RendersEveryConstructAsJinja2Does) {
    std::istringstream lines(test::read_file(test::data_path("jinja_cases.jsonl")));
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const Json head = Json::parse(line);
    std::size_t checked = 0;
    while (std::getline(lines, line)) {
        const Json one = Json::parse(line);
        const auto source = one["template"].get<std::string>();
        const auto result =
            render(source, one.contains("variables") ? one["variables"] : head["variables"]);
        bool same = false;
        if (one.contains("text")) {
            same = result && *result == one["text"].get<std::string>();
        } else if (one["error"] == "raise_exception") {
            same = !result && result.error().message == one["message"].get<std::string>();
        } else {
            same = !result;
        }
        EXPECT_EQ(same, !kDifferent.contains(source))
            << source << "\n  ours:   " << shown(result) << "\n  Jinja2: " << one.dump();
        ++checked;
    }
    EXPECT_GT(checked, 900U);
}

}  // namespace
}  // namespace ballast::chat
