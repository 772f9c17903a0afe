// SPDX-License-Identifier: MIT
// `ballast template FILE.jinja < case.json`: what a chat template makes of messages.
#include <cstdio>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/base/clock.h"
#include "engine/chat/chat_template.h"
#include "server/api/json_reader.h"
#include "server/cli/commands.h"
#include "server/cli/read_text.h"
#include "server/cli/report.h"

namespace ballast::cli {

namespace {

// A template is a few kilobytes; a conversation with a file in it may be some megabytes.
constexpr std::size_t kTemplateBytesMax = 4 << 20;
constexpr std::size_t kInputBytesMax = 64 << 20;

Result<nlohmann::ordered_json> read_case() {
    BALLAST_TRY(const std::string text, read_standard_input(kInputBytesMax));
    auto object = api::read_json(text);
    if (!object) {
        return fail(ErrorCode::kInvalidRequest,
                    "Standard input is not valid JSON: " + object.error().message);
    }
    if (!object->is_object()) {
        return fail(ErrorCode::kInvalidRequest,
                    "Standard input must be a JSON object with `messages` and what else the "
                    "template uses.");
    }
    return std::move(*object);
}

/// The template's variables: those every template may expect, then the members of `extra`.
Result<nlohmann::ordered_json> variables_of(nlohmann::ordered_json& object) {
    nlohmann::ordered_json variables = {{"messages", nlohmann::ordered_json::array()},
                                        {"tools", nullptr},
                                        {"documents", nullptr},
                                        {"add_generation_prompt", true},
                                        {"bos_token", ""},
                                        {"eos_token", ""}};
    for (auto& [name, value] : object.items()) {
        if (name == "extra" && (value.is_object() || value.is_null())) {
            continue;
        }
        if (name == "case") {
            continue;  // the case's name
        }
        if (!variables.contains(name)) {
            return fail(ErrorCode::kInvalidRequest,
                        fmt::format("The key `{}` is not known; further variables of the template "
                                    "stand in the object `extra`.",
                                    name));
        }
        variables[name] = value;
    }
    if (object.contains("extra")) {
        for (auto& [name, value] : object["extra"].items()) {
            variables[name] = value;
        }
    }
    return variables;
}

Result<std::string> render(const TemplateArgs& args) {
    BALLAST_TRY(const std::string source, read_text_file(args.file, kTemplateBytesMax));
    auto parsed = chat::ChatTemplate::parse(source);
    if (!parsed) {
        return fail_with_context(args.file, parsed.error());
    }
    BALLAST_TRY(nlohmann::ordered_json object, read_case());
    BALLAST_TRY(const nlohmann::ordered_json variables, variables_of(object));
    return parsed->render(variables, args.unix_seconds.value_or(SystemClock().unix_seconds()));
}

}  // namespace

int render_template(const TemplateArgs& args) {
    const auto prompt = render(args);
    if (!prompt) {
        return report(prompt.error());
    }
    // The prompt alone, byte for byte: no line end is added.
    std::fwrite(prompt->data(), 1, prompt->size(), stdout);
    return kExitSuccess;
}

}  // namespace ballast::cli
