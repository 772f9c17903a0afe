// SPDX-License-Identifier: MIT
// Expressions.
#include "engine/chat/template_eval.h"
#include "engine/chat/template_filters.h"
#include "engine/chat/template_frames.h"
#include "engine/chat/template_print.h"
#include "engine/chat/template_tests.h"

namespace ballast::chat {

Result<Value> TemplateRenderer::evaluate(const Expression& node) {
    const Depth depth(node_depth_);
    BALLAST_TRY_STATUS(depth.check(kNodesPerCall * limits_.depth_max));
    BALLAST_TRY_STATUS(heap_.spend(1));
    return evaluate_kind(node);
}

Result<Value> TemplateRenderer::evaluate_kind(const Expression& node) {
    switch (node.kind) {
        case ExpressionKind::kConstant:
            return node.constant;
        case ExpressionKind::kName:
            return evaluate_name(node);
        case ExpressionKind::kTuple:
        case ExpressionKind::kList:
            return evaluate_items(node);
        case ExpressionKind::kDict:
            return evaluate_dict(node);
        case ExpressionKind::kAttribute: {
            BALLAST_TRY(const auto object, evaluate(*node.operands[0]));
            return attribute(object, node.text);
        }
        case ExpressionKind::kItem: {
            BALLAST_TRY(const auto object, evaluate(*node.operands[0]));
            BALLAST_TRY(const auto index, evaluate(*node.operands[1]));
            if (object.is(Kind::kCallable) && index.is(Kind::kString)) {
                return attribute(object, index.text());
            }
            return get_item(values_, object, index);
        }
        case ExpressionKind::kSlice:
            return evaluate_slice(node);
        case ExpressionKind::kCall:
            return evaluate_call(node, nullptr);
        case ExpressionKind::kFilter:
            return evaluate_filter(node, nullptr);
        case ExpressionKind::kTest:
            return evaluate_test(node);
        case ExpressionKind::kNot: {
            BALLAST_TRY(const auto value, evaluate(*node.operands[0]));
            return Value::boolean(!truthy(value));
        }
        case ExpressionKind::kNegate: {
            BALLAST_TRY(const auto value, evaluate(*node.operands[0]));
            return negate(value);
        }
        case ExpressionKind::kPlus: {
            BALLAST_TRY(const auto value, evaluate(*node.operands[0]));
            return arithmetic(values_, Operator::kAdd, Value::integer(0), value);
        }
        case ExpressionKind::kAnd:
        case ExpressionKind::kOr:
            return evaluate_logic(node);
        case ExpressionKind::kConcat:
            return evaluate_concat(node);
        case ExpressionKind::kArithmetic:
            return evaluate_arithmetic(node);
        case ExpressionKind::kCompare:
            return evaluate_compare(node);
        case ExpressionKind::kConditional:
            return evaluate_conditional(node);
    }
    return template_error("an expression of unknown kind");
}

Result<Value> TemplateRenderer::evaluate_name(const Expression& node) {
    for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
        for (const auto& [symbol, value] : scope->names) {
            if (symbol == node.symbol) {
                return value;
            }
        }
    }
    auto& global = globals_[node.symbol];
    if (!global) {
        BALLAST_TRY(global, builtin_function(node.text));
    }
    if (!global) {
        return values_.undefined("'" + node.text + "' is undefined");
    }
    return *global;
}

Result<Value> TemplateRenderer::evaluate_items(const Expression& node) {
    std::vector<Value> items;
    items.reserve(node.operands.size());
    for (const auto& operand : node.operands) {
        BALLAST_TRY(auto item, evaluate(*operand));
        items.push_back(std::move(item));
    }
    return node.kind == ExpressionKind::kList ? values_.list(std::move(items))
                                              : values_.tuple(std::move(items));
}

Result<Value> TemplateRenderer::evaluate_dict(const Expression& node) {
    Entries entries;
    entries.reserve(node.operands.size() / 2);
    for (std::size_t i = 0; i + 1 < node.operands.size(); i += 2) {
        BALLAST_TRY(auto key, evaluate(*node.operands[i]));
        BALLAST_TRY(auto value, evaluate(*node.operands[i + 1]));
        entries.emplace_back(std::move(key), std::move(value));
    }
    return values_.dict(std::move(entries));
}

Result<Value> TemplateRenderer::evaluate_slice(const Expression& node) {
    BALLAST_TRY(const auto object, evaluate(*node.operands[0]));
    SliceBounds bounds;
    Value* const parts[] = {&bounds.start, &bounds.stop, &bounds.step};
    for (std::size_t i = 0; i < 3; ++i) {
        if (node.operands[i + 1]) {
            BALLAST_TRY(*parts[i], evaluate(*node.operands[i + 1]));
        }
    }
    return get_slice(values_, object, bounds);
}

Result<Value> TemplateRenderer::evaluate_logic(const Expression& node) {
    const bool stop_at = node.kind == ExpressionKind::kOr;
    Value value;
    for (const auto& operand : node.operands) {
        BALLAST_TRY(value, evaluate(*operand));
        if (truthy(value) == stop_at) {
            break;
        }
    }
    return value;
}

Result<Value> TemplateRenderer::evaluate_concat(const Expression& node) {
    std::string text;
    for (const auto& operand : node.operands) {
        BALLAST_TRY(const auto value, evaluate(*operand));
        BALLAST_TRY_STATUS(append_str(values_, text, value));
    }
    return values_.string(std::move(text));
}

Result<Value> TemplateRenderer::evaluate_arithmetic(const Expression& node) {
    BALLAST_TRY(auto value, evaluate(*node.operands[0]));
    for (std::size_t i = 0; i < node.operators.size(); ++i) {
        BALLAST_TRY(const auto right, evaluate(*node.operands[i + 1]));
        BALLAST_TRY(value, arithmetic(values_, node.operators[i], value, right));
    }
    return value;
}

Result<Value> TemplateRenderer::evaluate_compare(const Expression& node) {
    BALLAST_TRY(auto left, evaluate(*node.operands[0]));
    for (std::size_t i = 0; i < node.operators.size(); ++i) {
        BALLAST_TRY(auto right, evaluate(*node.operands[i + 1]));
        BALLAST_TRY(const bool holds, compare(values_, node.operators[i], left, right));
        if (!holds) {
            return Value::boolean(false);
        }
        left = std::move(right);
    }
    return Value::boolean(true);
}

Result<Value> TemplateRenderer::evaluate_conditional(const Expression& node) {
    BALLAST_TRY(const auto condition, evaluate(*node.operands[1]));
    if (truthy(condition)) {
        return evaluate(*node.operands[0]);
    }
    if (node.operands[2]) {
        return evaluate(*node.operands[2]);
    }
    return values_.undefined("the inline if-expression evaluated to false and has no else");
}

Result<Value> TemplateRenderer::evaluate_test(const Expression& node) {
    BALLAST_TRY(const auto value, evaluate(*node.operands[0]));
    BALLAST_TRY(const auto arguments, evaluate_arguments(node.arguments));
    BALLAST_TRY(const bool passed, apply_test(values_, node.text, value, arguments));
    return Value::boolean(passed);
}

/// `body` stands in for the missing operand at the bottom of a filter block's chain.
Result<Value> TemplateRenderer::evaluate_filter(const Expression& node, const Value* body) {
    const Depth depth(node_depth_);
    BALLAST_TRY_STATUS(depth.check(kNodesPerCall * limits_.depth_max));
    Value input;
    if (!node.operands[0]) {
        input = body != nullptr ? *body : Value();
    } else if (node.operands[0]->kind == ExpressionKind::kFilter) {
        BALLAST_TRY(input, evaluate_filter(*node.operands[0], body));
    } else {
        BALLAST_TRY(input, evaluate(*node.operands[0]));
    }
    BALLAST_TRY(const auto arguments, evaluate_arguments(node.arguments));
    return apply_filter(values_, node.text, input, arguments);
}

Result<Value> TemplateRenderer::attribute(const Value& object, const std::string& name) {
    if (object.is(Kind::kCallable)) {
        return callable_attribute(object, name);
    }
    return get_attribute(values_, object, name);
}

}  // namespace ballast::chat
