// SPDX-License-Identifier: MIT
// Real models' templates against what Jinja2 rendered from them (templates/ of the reference data).
#include <map>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/chat/chat_template.h"
#include "tests/support/test_data.h"

namespace ballast::chat {
namespace {

/// 2026-01-15 12:34:56 UTC, the moment at which the expectations were made.
constexpr std::int64_t kMoment = 1768480496;

/// Template and case pairs that do not pass, each with its reason. None at present.
const std::set<std::pair<std::string, std::string>> kKnownToDiffer = {};

/// The variables of a case: its members, with those of "extra" among them, and the usual defaults.
nlohmann::ordered_json case_variables(const nlohmann::ordered_json& chat_case) {
    nlohmann::ordered_json variables = {{"messages", nlohmann::ordered_json::array()},
                                        {"tools", nullptr},
                                        {"documents", nullptr},
                                        {"add_generation_prompt", true}};
    if (!chat_case.is_object()) {
        return variables;
    }
    for (const auto& [key, value] : chat_case.items()) {
        if (key == "extra" && value.is_object()) {
            variables.update(value);
        } else if (key != "case" && key != "extra") {
            variables[key] = value;
        }
    }
    return variables;
}

std::map<std::string, nlohmann::ordered_json> read_cases(const std::string& folder) {
    std::map<std::string, nlohmann::ordered_json> cases;
    std::istringstream lines(test::read_file(folder + "/cases.jsonl"));
    for (std::string line; std::getline(lines, line);) {
        auto one = nlohmann::ordered_json::parse(line);
        const auto name = one["case"].get<std::string>();
        cases[name] = case_variables(one);
    }
    return cases;
}

/// What is wrong with the rendering, or nothing.
std::string difference(const nlohmann::json& expected, const Result<std::string>& rendered) {
    if (expected["ok"].get<bool>()) {
        if (!rendered) {
            return "failed: " + rendered.error().message;
        }
        if (*rendered != expected["text"].get<std::string>()) {
            return "rendered\n" + *rendered + "\ninstead of\n" +
                   expected["text"].get<std::string>();
        }
        return {};
    }
    if (rendered) {
        return "rendered although Jinja2 fails with " + expected["message"].get<std::string>();
    }
    const bool raised = expected["error"] == "raise_exception";
    if (raised && rendered.error().message != expected["message"].get<std::string>()) {
        return "raised " + rendered.error().message + " instead of " +
               expected["message"].get<std::string>();
    }
    return {};
}

TEST(ChatTemplateRefdata, RendersEveryCaseOfEveryTemplateAsJinja2Does) {
    BALLAST_REFDATA_OR_SKIP(folder, "templates");
    const auto cases = read_cases(folder);
    std::map<std::string, Result<ChatTemplate>> templates;
    std::size_t checked = 0;
    std::size_t smollm2_equal = 0;
    for (const auto& expected : test::read_json_lines(folder + "/expected.jsonl")) {
        const auto file = expected["template"].get<std::string>();
        const auto name = expected["case"].get<std::string>();
        auto place = templates.find(file);
        if (place == templates.end()) {
            const auto source = test::read_file(folder + "/" + file);
            place = templates.emplace(file, ChatTemplate::parse(source)).first;
        }
        ++checked;
        ASSERT_TRUE(place->second) << file << ": " << place->second.error().message;
        const auto rendered = place->second->render(cases.at(name), kMoment);
        const std::string problem = difference(expected, rendered);
        const bool known = kKnownToDiffer.contains({file, name});
        EXPECT_EQ(problem.empty(), !known) << file << " " << name << " " << problem;
        smollm2_equal += file == "gguf-SmolLM2-135M-Instruct.jinja" && problem.empty() ? 1 : 0;
    }
    EXPECT_EQ(checked, 2376U);
    EXPECT_EQ(smollm2_equal, 33U);
}

}  // namespace
}  // namespace ballast::chat
