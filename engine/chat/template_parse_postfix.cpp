// SPDX-License-Identifier: MIT
// What follows a value in an expression: subscripts, calls, filters and tests.
#include "engine/chat/template_parser.h"

namespace ballast::chat {

Result<ExpressionPtr> TemplateParser::parse_postfix(ExpressionPtr node) {
    while (true) {
        if (is_operator(".") || is_operator("[")) {
            BALLAST_TRY(node, parse_subscript(std::move(node)));
        } else if (is_operator("(")) {
            BALLAST_TRY(node, parse_call(std::move(node)));
        } else {
            return node;
        }
    }
}

Result<ExpressionPtr> TemplateParser::parse_filters_and_tests(ExpressionPtr node) {
    while (true) {
        if (skip_operator("|")) {
            BALLAST_TRY(node, parse_filter(std::move(node)));
        } else if (skip_name("is")) {
            BALLAST_TRY(node, parse_test(std::move(node)));
        } else if (is_operator("(")) {
            BALLAST_TRY(node, parse_call(std::move(node)));
        } else {
            return node;
        }
    }
}

Result<ExpressionPtr> TemplateParser::parse_filter_chain(ExpressionPtr node) {
    while (true) {
        if (!skip_operator("|")) {
            return node;
        }
        BALLAST_TRY(node, parse_filter(std::move(node)));
    }
}

Result<std::string> TemplateParser::dotted_name() {
    BALLAST_TRY(std::string name, expect_name());
    while (skip_operator(".")) {
        BALLAST_TRY(const std::string part, expect_name());
        name += "." + part;
    }
    return name;
}

/// The filter whose `|` was just read; `node` is what it is applied to.
Result<ExpressionPtr> TemplateParser::parse_filter(ExpressionPtr node) {
    auto filter = make(ExpressionKind::kFilter);
    BALLAST_TRY(filter->text, dotted_name());
    filter->operands.push_back(std::move(node));
    if (is_operator("(")) {
        BALLAST_TRY_STATUS(parse_arguments(filter->arguments));
    }
    return measured(std::move(filter));
}

Result<ExpressionPtr> TemplateParser::parse_test(ExpressionPtr node) {
    const bool negated = skip_name("not");
    auto test = make(ExpressionKind::kTest);
    BALLAST_TRY(test->text, dotted_name());
    test->operands.push_back(std::move(node));
    if (is_operator("(")) {
        BALLAST_TRY_STATUS(parse_arguments(test->arguments));
    } else {
        bool argument = false;
        switch (current().kind) {
            case TokenKind::kName:
                argument = !is_name("else") && !is_name("or") && !is_name("and");
                break;
            case TokenKind::kString:
            case TokenKind::kInteger:
            case TokenKind::kFloat:
                argument = true;
                break;
            default:
                argument = is_operator("[") || is_operator("{");
        }
        if (argument) {
            if (is_name("is")) {
                return error_at(current().line, "tests cannot be chained with 'is'");
            }
            const Level level(depth_);
            BALLAST_TRY_STATUS(check_depth());
            BALLAST_TRY(auto value, parse_primary());
            BALLAST_TRY(value, parse_postfix(std::move(value)));
            test->arguments.positional.push_back(std::move(value));
        }
    }
    BALLAST_TRY(test, measured(std::move(test)));
    if (!negated) {
        return test;
    }
    auto inverse = make(ExpressionKind::kNot);
    inverse->operands.push_back(std::move(test));
    return measured(std::move(inverse));
}

Result<ExpressionPtr> TemplateParser::parse_subscript(ExpressionPtr node) {
    auto item = make(ExpressionKind::kItem);
    if (skip_operator(".")) {
        if (current().kind == TokenKind::kInteger) {
            auto index = make(ExpressionKind::kConstant);
            index->constant = Value::integer(take().integer);
            item->operands.push_back(std::move(node));
            item->operands.push_back(std::move(index));
            return measured(std::move(item));
        }
        item->kind = ExpressionKind::kAttribute;
        BALLAST_TRY(item->text, expect_name());
        item->operands.push_back(std::move(node));
        return measured(std::move(item));
    }
    take();
    std::vector<ExpressionPtr> parts;
    while (!is_operator("]")) {
        if (!parts.empty()) {
            BALLAST_TRY_STATUS(expect_operator(","));
        }
        BALLAST_TRY(auto part, parse_subscript_item());
        parts.push_back(std::move(part));
    }
    take();
    if (parts.size() == 1 && parts[0]->kind == ExpressionKind::kSlice && !parts[0]->operands[0]) {
        parts[0]->operands[0] = std::move(node);
        return measured(std::move(parts[0]));
    }
    item->operands.push_back(std::move(node));
    if (parts.size() == 1) {
        item->operands.push_back(std::move(parts[0]));
        return measured(std::move(item));
    }
    auto tuple = make(ExpressionKind::kTuple);
    for (auto& part : parts) {
        if (part->kind == ExpressionKind::kSlice && !part->operands[0]) {
            return error_at(part->line, "a slice cannot be one of several subscripts");
        }
        tuple->operands.push_back(std::move(part));
    }
    BALLAST_TRY(tuple, measured(std::move(tuple)));
    item->operands.push_back(std::move(tuple));
    return measured(std::move(item));
}

/// An index, or a slice whose object is still missing.
Result<ExpressionPtr> TemplateParser::parse_subscript_item() {
    auto slice = make(ExpressionKind::kSlice);
    slice->operands.resize(4);
    if (!is_operator(":")) {
        BALLAST_TRY(auto value, parse_expression());
        if (!is_operator(":")) {
            return value;
        }
        slice->operands[1] = std::move(value);
    }
    take();
    for (std::size_t i = 2; i < 4; ++i) {
        if (!is_operator(":") && !is_operator("]") && !is_operator(",")) {
            BALLAST_TRY(slice->operands[i], parse_expression());
        }
        if (i == 3 || !skip_operator(":")) {
            break;
        }
    }
    return slice;
}

Result<ExpressionPtr> TemplateParser::parse_call(ExpressionPtr callee) {
    auto call = make(ExpressionKind::kCall);
    call->operands.push_back(std::move(callee));
    BALLAST_TRY_STATUS(parse_arguments(call->arguments));
    return measured(std::move(call));
}

Status TemplateParser::parse_arguments(ArgumentNodes& arguments) {
    BALLAST_TRY_STATUS(expect_operator("("));
    bool first = true;
    while (!is_operator(")")) {
        if (!first) {
            BALLAST_TRY_STATUS(expect_operator(","));
        }
        first = false;
        if (is_operator(")")) {
            break;
        }
        BALLAST_TRY_STATUS(parse_argument(arguments));
    }
    take();
    return {};
}

Status TemplateParser::parse_argument(ArgumentNodes& arguments) {
    if (skip_operator("**")) {
        if (arguments.spread_named) {
            return error_at(current().line, "a call has '**' twice");
        }
        BALLAST_TRY(arguments.spread_named, parse_expression());
        return {};
    }
    if (arguments.spread_named) {
        return error_at(current().line, "an argument follows '**'");
    }
    if (skip_operator("*")) {
        if (arguments.spread) {
            return error_at(current().line, "a call has '*' twice");
        }
        BALLAST_TRY(arguments.spread, parse_expression());
        return {};
    }
    if (current().kind == TokenKind::kName && ahead().kind == TokenKind::kOperator &&
        ahead().text == "=") {
        std::string name = take().text;
        take();
        BALLAST_TRY(auto value, parse_expression());
        arguments.named.emplace_back(std::move(name), std::move(value));
        return {};
    }
    if (!arguments.named.empty() || arguments.spread) {
        return error_at(current().line, "a positional argument follows a named one");
    }
    BALLAST_TRY(auto value, parse_expression());
    arguments.positional.push_back(std::move(value));
    return {};
}

}  // namespace ballast::chat
