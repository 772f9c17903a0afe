// SPDX-License-Identifier: MIT
// Cuts a template into text and tokens, with Jinja2's rules for white space around tags:
// trim_blocks and lstrip_blocks are on, `-` strips, `+` keeps. First step of ChatTemplate::parse.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/chat/template_value.h"

namespace ballast::chat {

enum class TokenKind {
    kText,
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
};

struct Token {
    TokenKind kind = TokenKind::kEnd;
    std::uint32_t line = 0;
    /// Text, name, string contents with escapes resolved, or the operator's characters.
    std::string text;
    Integer integer = 0;
    double real = 0;
};

/// All tokens of the template, with a kEnd after the last.
Result<std::vector<Token>> tokenize_template(std::string_view source);

/// "line 3: message", the form of every error that has a place in the template.
tl::unexpected<Error> error_at(std::uint32_t line, const std::string& message);

}  // namespace ballast::chat
