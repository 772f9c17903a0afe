// SPDX-License-Identifier: MIT
// The three steps: template_lexer, template_parser, template_eval.
#include "engine/chat/chat_template.h"

#include <nlohmann/json.hpp>

#include "engine/chat/template_eval.h"
#include "engine/chat/template_parser.h"

namespace ballast::chat {

struct ChatTemplate::Program {
    std::string source;
    TemplateProgram parsed;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
    BALLAST_TRY(auto parsed, parse_template(source));
    auto program = std::make_unique<Program>();
    program->source = source;
    program->parsed = std::move(parsed);
    return ChatTemplate(std::move(program));
}

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& variables,
                                         std::int64_t unix_seconds,
                                         const RenderLimits& limits) const {
    return TemplateRenderer(program_->parsed, unix_seconds, limits).run(variables);
}

const std::string& ChatTemplate::source() const {
    return program_->source;
}

}  // namespace ballast::chat
