// SPDX-License-Identifier: MIT
// Statements of the template language.
#include "engine/chat/template_parser.h"

#include <algorithm>

namespace ballast::chat {

TemplateParser::TemplateParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
    for (const char* name : {"loop", "caller", "varargs", "kwargs"}) {
        intern(name);
    }
    mentions_.resize(kWellKnownSymbols);
}

Result<TemplateProgram> TemplateParser::run() {
    TemplateProgram program;
    BALLAST_TRY(program.body, parse_body({}));
    program.symbols = std::move(symbols_);
    return program;
}

Status TemplateParser::check_depth() const {
    if (depth_ > kDepthMax) {
        return error_at(current().line,
                        "blocks or brackets are nested deeper than " + std::to_string(kDepthMax));
    }
    return {};
}

const Token& TemplateParser::ahead() const {
    return tokens_[std::min(position_ + 1, tokens_.size() - 1)];
}

const Token& TemplateParser::take() {
    const Token& token = tokens_[position_];
    if (position_ + 1 < tokens_.size()) {
        ++position_;
    }
    return token;
}

bool TemplateParser::is_name(std::string_view name) const {
    return current().kind == TokenKind::kName && current().text == name;
}

bool TemplateParser::is_operator(std::string_view text) const {
    return current().kind == TokenKind::kOperator && current().text == text;
}

bool TemplateParser::skip_name(std::string_view name) {
    if (!is_name(name)) {
        return false;
    }
    take();
    return true;
}

bool TemplateParser::skip_operator(std::string_view text) {
    if (!is_operator(text)) {
        return false;
    }
    take();
    return true;
}

tl::unexpected<Error> TemplateParser::unexpected(std::string_view wanted) const {
    std::string found;
    switch (current().kind) {
        case TokenKind::kEnd:
            found = "the end of the template";
            break;
        case TokenKind::kText:
        case TokenKind::kVariableEnd:
        case TokenKind::kBlockEnd:
            found = "the end of the tag";
            break;
        case TokenKind::kInteger:
        case TokenKind::kFloat:
            found = "a number";
            break;
        case TokenKind::kString:
            found = "a string";
            break;
        default:
            found = "'" + current().text.substr(0, 80) + "'";
    }
    return error_at(current().line, "expected " + std::string(wanted) + ", found " + found);
}

Status TemplateParser::expect_operator(std::string_view text) {
    if (!skip_operator(text)) {
        return unexpected("'" + std::string(text) + "'");
    }
    return {};
}

Result<std::string> TemplateParser::expect_name() {
    if (current().kind != TokenKind::kName) {
        return unexpected("a name");
    }
    return take().text;
}

Status TemplateParser::expect_block_end() {
    if (current().kind != TokenKind::kBlockEnd) {
        return unexpected("'%}'");
    }
    take();
    return {};
}

SymbolId TemplateParser::intern(const std::string& name) {
    const auto [place, added] =
        symbol_ids_.try_emplace(name, static_cast<SymbolId>(symbols_.size()));
    if (added) {
        symbols_.push_back(name);
    }
    return place->second;
}

/// Statements up to a tag named in end_names, whose name is left as the current token; with no
/// names, up to the end of the template.
Result<Block> TemplateParser::parse_body(std::initializer_list<std::string_view> end_names) {
    const Level level(depth_);
    BALLAST_TRY_STATUS(check_depth());
    Block block;
    while (current().kind != TokenKind::kEnd) {
        auto node = std::make_unique<Statement>();
        node->line = current().line;
        if (current().kind == TokenKind::kText) {
            node->kind = StatementKind::kText;
            node->text = take().text;
        } else if (current().kind == TokenKind::kVariableBegin) {
            take();
            node->kind = StatementKind::kOutput;
            BALLAST_TRY(auto value, parse_tuple(true, false));
            node->expressions.push_back(std::move(value));
            if (current().kind != TokenKind::kVariableEnd) {
                return unexpected("'}}'");
            }
            take();
        } else {
            take();
            for (const std::string_view name : end_names) {
                if (is_name(name)) {
                    return block;
                }
            }
            BALLAST_TRY(node, parse_statement());
            if (node == nullptr) {
                continue;
            }
        }
        block.push_back(std::move(node));
    }
    if (end_names.size() != 0) {
        return unexpected("'{% " + std::string(*(end_names.end() - 1)) + " %}'");
    }
    return block;
}

Result<std::unique_ptr<Statement>> TemplateParser::parse_statement() {
    auto node = std::make_unique<Statement>();
    node->line = current().line;
    BALLAST_TRY(const std::string name, expect_name());
    Status status;
    if (name == "for") {
        status = parse_for(*node);
    } else if (name == "if") {
        status = parse_if(*node);
    } else if (name == "set") {
        status = parse_set(*node);
    } else if (name == "macro") {
        status = parse_macro(*node);
    } else if (name == "call") {
        status = parse_call_block(*node);
    } else if (name == "filter") {
        status = parse_filter_block(*node);
    } else if (name == "with") {
        status = parse_with(*node);
    } else if (name == "print") {
        status = parse_print(*node);
    } else if (name == "generation") {
        // Marks what the model wrote, for training; it changes nothing in the prompt.
        node->kind = StatementKind::kScope;
        BALLAST_TRY_STATUS(expect_block_end());
        const std::uint32_t loops = std::exchange(loops_, 0);
        BALLAST_TRY(node->body, parse_body({"endgeneration"}));
        loops_ = loops;
        take();
    } else if (name == "break" || name == "continue") {
        node->kind = name == "break" ? StatementKind::kBreak : StatementKind::kContinue;
        if (loops_ == 0) {
            return error_at(node->line, "'" + name + "' outside a loop");
        }
    } else {
        return error_at(node->line, "'{% " + name.substr(0, 80) + " %}' is not supported here");
    }
    BALLAST_TRY_STATUS(status);
    BALLAST_TRY_STATUS(expect_block_end());
    return node;
}

Status TemplateParser::parse_for(Statement& node) {
    node.kind = StatementKind::kFor;
    BALLAST_TRY(auto target, parse_target(false, true));
    node.targets.push_back(std::move(target));
    if (!skip_name("in")) {
        return unexpected("'in'");
    }
    BALLAST_TRY(auto iterable, parse_tuple(false, false));
    node.expressions.push_back(std::move(iterable));
    node.expressions.emplace_back();
    if (skip_name("if")) {
        BALLAST_TRY(node.expressions[1], parse_expression());
    }
    node.recursive = skip_name("recursive");
    BALLAST_TRY_STATUS(expect_block_end());
    const std::uint32_t mentions = mentions_[kSymbolLoop];
    ++loops_;
    BALLAST_TRY(node.body, parse_body({"else", "endfor"}));
    --loops_;
    node.uses_loop = node.recursive || mentions_[kSymbolLoop] != mentions;
    if (skip_name("else")) {
        BALLAST_TRY_STATUS(expect_block_end());
        BALLAST_TRY(node.otherwise, parse_body({"endfor"}));
    }
    take();
    return {};
}

Status TemplateParser::parse_if(Statement& node) {
    node.kind = StatementKind::kIf;
    while (true) {
        BALLAST_TRY(auto condition, parse_tuple(false, false));
        node.expressions.push_back(std::move(condition));
        BALLAST_TRY_STATUS(expect_block_end());
        BALLAST_TRY(auto branch, parse_body({"elif", "else", "endif"}));
        node.branches.push_back(std::move(branch));
        if (!skip_name("elif")) {
            break;
        }
    }
    if (skip_name("else")) {
        BALLAST_TRY_STATUS(expect_block_end());
        BALLAST_TRY(node.otherwise, parse_body({"endif"}));
    }
    take();
    return {};
}

Status TemplateParser::parse_set(Statement& node) {
    BALLAST_TRY(auto target, parse_target(true, true));
    node.targets.push_back(std::move(target));
    if (skip_operator("=")) {
        node.kind = StatementKind::kSet;
        BALLAST_TRY(auto value, parse_tuple(true, false));
        node.expressions.push_back(std::move(value));
        return {};
    }
    node.kind = StatementKind::kSetBlock;
    node.expressions.emplace_back();
    if (is_operator("|")) {
        BALLAST_TRY(node.expressions[0], parse_filter_chain(nullptr));
    }
    BALLAST_TRY_STATUS(expect_block_end());
    BALLAST_TRY(node.body, parse_body({"endset"}));
    take();
    return {};
}

Status TemplateParser::parse_signature(MacroNode& macro) {
    BALLAST_TRY_STATUS(expect_operator("("));
    while (!is_operator(")")) {
        if (!macro.parameters.empty()) {
            BALLAST_TRY_STATUS(expect_operator(","));
        }
        MacroNode::Parameter parameter;
        BALLAST_TRY(parameter.name, expect_name());
        parameter.symbol = intern(parameter.name);
        if (skip_operator("=")) {
            BALLAST_TRY(parameter.fallback, parse_expression());
        } else if (!macro.parameters.empty() && macro.parameters.back().fallback) {
            return error_at(current().line, "a parameter without a default follows one with it");
        }
        macro.parameters.push_back(std::move(parameter));
    }
    take();
    return {};
}

Status TemplateParser::parse_macro_body(MacroNode& macro, std::string_view end_name) {
    BALLAST_TRY_STATUS(expect_block_end());
    const std::vector<std::uint32_t> before = mentions_;
    const std::uint32_t loops = std::exchange(loops_, 0);
    BALLAST_TRY(macro.body, parse_body({end_name}));
    loops_ = loops;
    macro.uses_caller = mentions_[kSymbolCaller] != before[kSymbolCaller];
    macro.uses_varargs = mentions_[kSymbolVarargs] != before[kSymbolVarargs];
    macro.uses_kwargs = mentions_[kSymbolKwargs] != before[kSymbolKwargs];
    take();
    return {};
}

Status TemplateParser::parse_macro(Statement& node) {
    node.kind = StatementKind::kMacro;
    node.macro = std::make_unique<MacroNode>();
    BALLAST_TRY(node.macro->name, expect_name());
    node.symbol = intern(node.macro->name);
    BALLAST_TRY_STATUS(parse_signature(*node.macro));
    return parse_macro_body(*node.macro, "endmacro");
}

Status TemplateParser::parse_call_block(Statement& node) {
    node.kind = StatementKind::kCall;
    node.macro = std::make_unique<MacroNode>();
    node.macro->name = "caller";
    if (is_operator("(")) {
        BALLAST_TRY_STATUS(parse_signature(*node.macro));
    }
    BALLAST_TRY(auto call, parse_expression());
    if (call->kind != ExpressionKind::kCall) {
        return error_at(node.line, "'{% call %}' needs a call");
    }
    node.expressions.push_back(std::move(call));
    return parse_macro_body(*node.macro, "endcall");
}

Status TemplateParser::parse_filter_block(Statement& node) {
    node.kind = StatementKind::kFilterBlock;
    BALLAST_TRY(auto first, parse_filter(nullptr));
    BALLAST_TRY(auto chain, parse_filter_chain(std::move(first)));
    node.expressions.push_back(std::move(chain));
    BALLAST_TRY_STATUS(expect_block_end());
    BALLAST_TRY(node.body, parse_body({"endfilter"}));
    take();
    return {};
}

Status TemplateParser::parse_with(Statement& node) {
    node.kind = StatementKind::kWith;
    while (current().kind != TokenKind::kBlockEnd) {
        if (!node.targets.empty()) {
            BALLAST_TRY_STATUS(expect_operator(","));
        }
        BALLAST_TRY(auto target, parse_target(false, false));
        node.targets.push_back(std::move(target));
        BALLAST_TRY_STATUS(expect_operator("="));
        BALLAST_TRY(auto value, parse_expression());
        node.expressions.push_back(std::move(value));
    }
    take();
    BALLAST_TRY(node.body, parse_body({"endwith"}));
    take();
    return {};
}

Status TemplateParser::parse_print(Statement& node) {
    node.kind = StatementKind::kOutput;
    while (current().kind != TokenKind::kBlockEnd) {
        if (!node.expressions.empty()) {
            BALLAST_TRY_STATUS(expect_operator(","));
        }
        BALLAST_TRY(auto value, parse_expression());
        node.expressions.push_back(std::move(value));
    }
    return {};
}

Result<Target> TemplateParser::parse_single_target(bool allow_attribute) {
    if (is_operator("(")) {
        const Level level(depth_);
        BALLAST_TRY_STATUS(check_depth());
        take();
        BALLAST_TRY(auto inner, parse_target(allow_attribute, true));
        BALLAST_TRY_STATUS(expect_operator(")"));
        return inner;
    }
    Target target;
    BALLAST_TRY(target.name, expect_name());
    static constexpr std::string_view kReserved[] = {
        "true", "false", "none", "True", "False", "None"};
    if (std::find(std::begin(kReserved), std::end(kReserved), target.name) != std::end(kReserved)) {
        return error_at(current().line, "cannot assign to '" + target.name + "'");
    }
    target.symbol = intern(target.name);
    if (allow_attribute && skip_operator(".")) {
        BALLAST_TRY(target.attribute, expect_name());
    }
    return target;
}

Result<Target> TemplateParser::parse_target(bool allow_attribute, bool allow_tuple) {
    BALLAST_TRY(auto first, parse_single_target(allow_attribute));
    if (!allow_tuple || !is_operator(",")) {
        return first;
    }
    Target tuple;
    tuple.parts.push_back(std::move(first));
    while (skip_operator(",")) {
        BALLAST_TRY(auto part, parse_single_target(allow_attribute));
        tuple.parts.push_back(std::move(part));
    }
    return tuple;
}

Result<TemplateProgram> parse_template(std::string_view source) {
    BALLAST_TRY(auto tokens, tokenize_template(source));
    return TemplateParser(std::move(tokens)).run();
}

}  // namespace ballast::chat
