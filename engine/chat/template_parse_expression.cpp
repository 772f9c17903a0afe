// SPDX-License-Identifier: MIT
// Expressions of the template language, loosest binding first. Operators of one precedence make one
// flat node, so that a long sum does not nest.
#include <algorithm>
#include <array>

#include "engine/chat/template_parser.h"
#include "engine/chat/template_text.h"

namespace ballast::chat {

namespace {

struct OperatorName {
    std::string_view text;
    Operator op;
};

constexpr std::array<OperatorName, 6> kComparisons = {{{"==", Operator::kEqual},
                                                       {"!=", Operator::kNotEqual},
                                                       {"<=", Operator::kLessEqual},
                                                       {">=", Operator::kGreaterEqual},
                                                       {"<", Operator::kLess},
                                                       {">", Operator::kGreater}}};
constexpr std::array<OperatorName, 2> kSums = {{{"+", Operator::kAdd}, {"-", Operator::kSubtract}}};
constexpr std::array<OperatorName, 4> kProducts = {{{"*", Operator::kMultiply},
                                                    {"/", Operator::kDivide},
                                                    {"//", Operator::kFloorDivide},
                                                    {"%", Operator::kModulo}}};

template <std::size_t N>
const OperatorName* find_operator(const std::array<OperatorName, N>& table, const Token& token) {
    if (token.kind != TokenKind::kOperator) {
        return nullptr;
    }
    for (const OperatorName& entry : table) {
        if (entry.text == token.text) {
            return &entry;
        }
    }
    return nullptr;
}

}  // namespace

ExpressionPtr TemplateParser::make(ExpressionKind kind) const {
    auto node = std::make_unique<Expression>();
    node->kind = kind;
    node->line = current().line;
    return node;
}

/// Sets the height of a node whose operands are complete, and refuses one that is too high.
Result<ExpressionPtr> TemplateParser::measured(ExpressionPtr node) const {
    const auto include = [&node](const ExpressionPtr& child) {
        if (child) {
            node->height = std::max(node->height, child->height + 1);
        }
    };
    for (const auto& operand : node->operands) {
        include(operand);
    }
    for (const auto& argument : node->arguments.positional) {
        include(argument);
    }
    for (const auto& [name, argument] : node->arguments.named) {
        include(argument);
    }
    include(node->arguments.spread);
    include(node->arguments.spread_named);
    if (node->height > kHeightMax) {
        return error_at(node->line, "an expression has too many parts");
    }
    return node;
}

ExpressionPtr TemplateParser::make_name(const std::string& name) {
    auto node = make(ExpressionKind::kName);
    node->text = name;
    node->symbol = intern(name);
    if (node->symbol < kWellKnownSymbols) {
        ++mentions_[node->symbol];
    }
    return node;
}

Result<ExpressionPtr> TemplateParser::parse_expression(bool with_conditional) {
    const Level level(depth_);
    BALLAST_TRY_STATUS(check_depth());
    return with_conditional ? parse_conditional() : parse_or();
}

bool TemplateParser::tuple_ends() const {
    return current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd ||
           is_operator(")");
}

/// One expression, or a tuple when commas follow; `()` is a tuple only where parenthesised.
Result<ExpressionPtr> TemplateParser::parse_tuple(bool with_conditional, bool parenthesised) {
    auto tuple = make(ExpressionKind::kTuple);
    bool is_tuple = false;
    while (!tuple_ends()) {
        BALLAST_TRY(auto item, parse_expression(with_conditional));
        tuple->operands.push_back(std::move(item));
        if (!skip_operator(",")) {
            break;
        }
        is_tuple = true;
    }
    if (!is_tuple && !tuple->operands.empty()) {
        return std::move(tuple->operands[0]);
    }
    if (!is_tuple && !parenthesised) {
        return unexpected("an expression");
    }
    return measured(std::move(tuple));
}

Result<ExpressionPtr> TemplateParser::parse_conditional() {
    BALLAST_TRY(auto value, parse_or());
    while (skip_name("if")) {
        auto node = make(ExpressionKind::kConditional);
        BALLAST_TRY(auto condition, parse_or());
        ExpressionPtr otherwise;
        if (skip_name("else")) {
            const Level level(depth_);
            BALLAST_TRY_STATUS(check_depth());
            BALLAST_TRY(otherwise, parse_conditional());
        }
        node->operands.push_back(std::move(value));
        node->operands.push_back(std::move(condition));
        node->operands.push_back(std::move(otherwise));
        BALLAST_TRY(value, measured(std::move(node)));
    }
    return value;
}

Result<ExpressionPtr> TemplateParser::parse_or() {
    BALLAST_TRY(auto first, parse_and());
    if (!is_name("or")) {
        return first;
    }
    auto node = make(ExpressionKind::kOr);
    node->operands.push_back(std::move(first));
    while (skip_name("or")) {
        BALLAST_TRY(auto next, parse_and());
        node->operands.push_back(std::move(next));
    }
    return measured(std::move(node));
}

Result<ExpressionPtr> TemplateParser::parse_and() {
    BALLAST_TRY(auto first, parse_not());
    if (!is_name("and")) {
        return first;
    }
    auto node = make(ExpressionKind::kAnd);
    node->operands.push_back(std::move(first));
    while (skip_name("and")) {
        BALLAST_TRY(auto next, parse_not());
        node->operands.push_back(std::move(next));
    }
    return measured(std::move(node));
}

Result<ExpressionPtr> TemplateParser::parse_not() {
    if (!is_name("not")) {
        return parse_compare();
    }
    const Level level(depth_);
    BALLAST_TRY_STATUS(check_depth());
    auto node = make(ExpressionKind::kNot);
    take();
    BALLAST_TRY(auto operand, parse_not());
    node->operands.push_back(std::move(operand));
    return measured(std::move(node));
}

Result<ExpressionPtr> TemplateParser::parse_compare() {
    BALLAST_TRY(auto first, parse_sum());
    auto node = make(ExpressionKind::kCompare);
    node->operands.push_back(std::move(first));
    while (true) {
        Operator op = Operator::kIn;
        if (const OperatorName* found = find_operator(kComparisons, current())) {
            op = found->op;
            take();
        } else if (is_name("not") && ahead().kind == TokenKind::kName && ahead().text == "in") {
            op = Operator::kNotIn;
            take();
            take();
        } else if (!skip_name("in")) {
            break;
        }
        BALLAST_TRY(auto right, parse_sum());
        node->operators.push_back(op);
        node->operands.push_back(std::move(right));
    }
    return node->operators.empty() ? std::move(node->operands[0]) : measured(std::move(node));
}

Result<ExpressionPtr> TemplateParser::parse_sum() {
    BALLAST_TRY(auto first, parse_concat());
    auto node = make(ExpressionKind::kArithmetic);
    node->operands.push_back(std::move(first));
    while (const OperatorName* found = find_operator(kSums, current())) {
        take();
        BALLAST_TRY(auto right, parse_concat());
        node->operators.push_back(found->op);
        node->operands.push_back(std::move(right));
    }
    return node->operators.empty() ? std::move(node->operands[0]) : measured(std::move(node));
}

Result<ExpressionPtr> TemplateParser::parse_concat() {
    BALLAST_TRY(auto first, parse_product());
    if (!is_operator("~")) {
        return first;
    }
    auto node = make(ExpressionKind::kConcat);
    node->operands.push_back(std::move(first));
    while (skip_operator("~")) {
        BALLAST_TRY(auto next, parse_product());
        node->operands.push_back(std::move(next));
    }
    return measured(std::move(node));
}

Result<ExpressionPtr> TemplateParser::parse_product() {
    BALLAST_TRY(auto first, parse_power());
    auto node = make(ExpressionKind::kArithmetic);
    node->operands.push_back(std::move(first));
    while (const OperatorName* found = find_operator(kProducts, current())) {
        take();
        BALLAST_TRY(auto right, parse_power());
        node->operators.push_back(found->op);
        node->operands.push_back(std::move(right));
    }
    return node->operators.empty() ? std::move(node->operands[0]) : measured(std::move(node));
}

Result<ExpressionPtr> TemplateParser::parse_power() {
    BALLAST_TRY(auto first, parse_unary());
    auto node = make(ExpressionKind::kArithmetic);
    node->operands.push_back(std::move(first));
    while (skip_operator("**")) {
        // Jinja's power binds to the left, unlike Python's.
        BALLAST_TRY(auto right, parse_unary());
        node->operators.push_back(Operator::kPower);
        node->operands.push_back(std::move(right));
    }
    return node->operators.empty() ? std::move(node->operands[0]) : measured(std::move(node));
}

Result<ExpressionPtr> TemplateParser::parse_unary(bool with_filter) {
    ExpressionPtr node;
    if (is_operator("-") || is_operator("+")) {
        const Level level(depth_);
        BALLAST_TRY_STATUS(check_depth());
        node = make(is_operator("-") ? ExpressionKind::kNegate : ExpressionKind::kPlus);
        take();
        BALLAST_TRY(auto operand, parse_unary(false));
        node->operands.push_back(std::move(operand));
        BALLAST_TRY(node, measured(std::move(node)));
    } else {
        BALLAST_TRY(node, parse_primary());
    }
    BALLAST_TRY(node, parse_postfix(std::move(node)));
    return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

Result<ExpressionPtr> TemplateParser::parse_primary() {
    auto node = make(ExpressionKind::kConstant);
    const Token& token = current();
    switch (token.kind) {
        case TokenKind::kName:
            if (token.text == "true" || token.text == "True") {
                node->constant = Value::boolean(true);
            } else if (token.text == "false" || token.text == "False") {
                node->constant = Value::boolean(false);
            } else if (token.text == "none" || token.text == "None") {
                node->constant = Value::none();
            } else {
                node = make_name(token.text);
            }
            take();
            return node;
        case TokenKind::kString: {
            auto string = std::make_shared<StringObject>();
            while (current().kind == TokenKind::kString) {
                string->text += take().text;
            }
            string->code_points = count_code_points(string->text);
            node->constant = Value::of(std::shared_ptr<const StringObject>(std::move(string)));
            return node;
        }
        case TokenKind::kInteger:
            node->constant = Value::integer(take().integer);
            return node;
        case TokenKind::kFloat:
            node->constant = Value::real(take().real);
            return node;
        default:
            break;
    }
    if (skip_operator("(")) {
        BALLAST_TRY(node, parse_tuple(true, true));
        BALLAST_TRY_STATUS(expect_operator(")"));
        return node;
    }
    if (is_operator("[")) {
        return parse_list();
    }
    if (is_operator("{")) {
        return parse_dict();
    }
    return unexpected("an expression");
}

Result<ExpressionPtr> TemplateParser::parse_list() {
    auto node = make(ExpressionKind::kList);
    take();
    while (!is_operator("]")) {
        if (!node->operands.empty()) {
            BALLAST_TRY_STATUS(expect_operator(","));
        }
        if (is_operator("]")) {
            break;
        }
        BALLAST_TRY(auto item, parse_expression());
        node->operands.push_back(std::move(item));
    }
    BALLAST_TRY_STATUS(expect_operator("]"));
    return measured(std::move(node));
}

Result<ExpressionPtr> TemplateParser::parse_dict() {
    auto node = make(ExpressionKind::kDict);
    take();
    while (!is_operator("}")) {
        if (!node->operands.empty()) {
            BALLAST_TRY_STATUS(expect_operator(","));
        }
        if (is_operator("}")) {
            break;
        }
        BALLAST_TRY(auto key, parse_expression());
        BALLAST_TRY_STATUS(expect_operator(":"));
        BALLAST_TRY(auto value, parse_expression());
        node->operands.push_back(std::move(key));
        node->operands.push_back(std::move(value));
    }
    BALLAST_TRY_STATUS(expect_operator("}"));
    return measured(std::move(node));
}

}  // namespace ballast::chat
