// SPDX-License-Identifier: MIT
// Statements, scopes and output.
#include "engine/chat/template_eval.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/chat/template_frames.h"
#include "engine/chat/template_json.h"
#include "engine/chat/template_print.h"

namespace ballast::chat {

TemplateRenderer::TemplateRenderer(const TemplateProgram& program,
                                   std::int64_t unix_seconds,
                                   const RenderLimits& limits)
    : program_(program),
      unix_seconds_(unix_seconds),
      limits_(limits),
      heap_({limits.steps_max, limits.memory_bytes_max, limits.depth_max}),
      values_(heap_),
      globals_(program.symbols.size()) {}

Result<std::string> TemplateRenderer::run(const nlohmann::ordered_json& variables) {
    std::string out;
    out_ = &out;
    BALLAST_TRY_STATUS(bind_variables(variables));
    {
        const ScopeFrame top(*this);
        BALLAST_TRY_STATUS(run_block(program_.body).map([](Flow) {}));
    }
    return out;
}

/// Only what the template mentions is converted.
Status TemplateRenderer::bind_variables(const nlohmann::ordered_json& variables) {
    if (!variables.is_object()) {
        return template_error("the variables of a chat template must be a JSON object");
    }
    for (std::size_t symbol = 0; symbol < program_.symbols.size(); ++symbol) {
        const auto place = variables.find(program_.symbols[symbol]);
        if (place != variables.end()) {
            BALLAST_TRY(globals_[symbol], value_from_json(values_, *place));
        }
    }
    return {};
}

tl::unexpected<Error> TemplateRenderer::located(Error error, std::uint32_t line) {
    if (!error_located_) {
        error_located_ = true;
        error.message = "line " + std::to_string(line) + ": " + error.message;
    }
    return tl::unexpected<Error>(std::move(error));
}

Status TemplateRenderer::emit(std::string_view text) {
    if (text.size() > limits_.output_bytes_max - output_bytes_) {
        return template_error("the chat template's output is longer than " +
                              std::to_string(limits_.output_bytes_max) + " bytes");
    }
    output_bytes_ += text.size();
    out_->append(text);
    return heap_.spend_bytes(text.size());
}

Status TemplateRenderer::emit_value(const Value& value) {
    if (value.is(Kind::kString)) {
        return emit(value.text());
    }
    BALLAST_TRY(const auto text, to_str(values_, value));
    return emit(text);
}

Result<TemplateRenderer::Flow> TemplateRenderer::run_block(const Block& block) {
    const Depth depth(node_depth_);
    BALLAST_TRY_STATUS(depth.check(kNodesPerCall * limits_.depth_max));
    for (const auto& statement : block) {
        auto flow = heap_.spend(1).and_then([&] { return run_statement(*statement); });
        if (!flow) {
            return located(std::move(flow).error(), statement->line);
        }
        if (*flow != Flow::kNormal) {
            return flow;
        }
    }
    return Flow::kNormal;
}

Result<TemplateRenderer::Flow> TemplateRenderer::run_statement(const Statement& node) {
    Status status;
    switch (node.kind) {
        case StatementKind::kText:
            status = emit(node.text);
            break;
        case StatementKind::kOutput:
            status = run_output(node);
            break;
        case StatementKind::kFor: {
            BALLAST_TRY(const auto iterable, evaluate(*node.expressions[0]));
            status = run_loop(node, iterable, 0);
            break;
        }
        case StatementKind::kIf:
            return run_if(node);
        case StatementKind::kSet:
            status = run_set(node);
            break;
        case StatementKind::kSetBlock:
            status = run_set_block(node);
            break;
        case StatementKind::kFilterBlock:
            status = run_filter_block(node);
            break;
        case StatementKind::kMacro:
            status = run_macro(node);
            break;
        case StatementKind::kCall:
            status = run_call_block(node);
            break;
        case StatementKind::kWith:
        case StatementKind::kScope:
            return run_scope(node);
        case StatementKind::kBreak:
            return Flow::kBreak;
        case StatementKind::kContinue:
            return Flow::kContinue;
    }
    BALLAST_TRY_STATUS(status);
    return Flow::kNormal;
}

Status TemplateRenderer::run_output(const Statement& node) {
    for (const auto& expression : node.expressions) {
        BALLAST_TRY(const auto value, evaluate(*expression));
        BALLAST_TRY_STATUS(emit_value(value));
    }
    return {};
}

Result<TemplateRenderer::Flow> TemplateRenderer::run_if(const Statement& node) {
    for (std::size_t i = 0; i < node.expressions.size(); ++i) {
        BALLAST_TRY(const auto condition, evaluate(*node.expressions[i]));
        if (truthy(condition)) {
            return run_block(node.branches[i]);
        }
    }
    return run_block(node.otherwise);
}

Result<TemplateRenderer::Flow> TemplateRenderer::run_scope(const Statement& node) {
    std::vector<Value> values;
    for (const auto& expression : node.expressions) {
        BALLAST_TRY(auto value, evaluate(*expression));
        values.push_back(std::move(value));
    }
    const ScopeFrame frame(*this);
    for (std::size_t i = 0; i < values.size(); ++i) {
        BALLAST_TRY_STATUS(assign(node.targets[i], values[i]));
    }
    return run_block(node.body);
}

void TemplateRenderer::bind(SymbolId symbol, Value value) {
    for (auto& [name, bound] : scope_->names) {
        if (name == symbol) {
            bound = std::move(value);
            return;
        }
    }
    scope_->names.emplace_back(symbol, std::move(value));
}

Status TemplateRenderer::assign(const Target& target, const Value& value) {
    if (!target.attribute.empty()) {
        Expression name;
        name.symbol = target.symbol;
        name.text = target.name;
        BALLAST_TRY(const auto object, evaluate_name(name));
        if (!object.is(Kind::kNamespace)) {
            return template_error("cannot assign attribute on non-namespace object");
        }
        NamespaceObject& space = *object.name_space();
        if (Value* found = space.find(target.attribute)) {
            *found = value;
        } else {
            space.attributes.emplace_back(target.attribute, value);
        }
        return {};
    }
    if (target.parts.empty()) {
        bind(target.symbol, value);
        return {};
    }
    BALLAST_TRY(auto cursor, Cursor::over(values_, value));
    for (const Target& part : target.parts) {
        BALLAST_TRY(const auto item, cursor.next());
        if (!item) {
            return template_error("not enough values to unpack (expected " +
                                  std::to_string(target.parts.size()) + ")");
        }
        BALLAST_TRY_STATUS(assign(part, *item));
    }
    if (cursor.remaining() > 0) {
        return template_error("too many values to unpack (expected " +
                              std::to_string(target.parts.size()) + ")");
    }
    return {};
}

Status TemplateRenderer::run_set(const Statement& node) {
    BALLAST_TRY(const auto value, evaluate(*node.expressions[0]));
    return assign(node.targets[0], value);
}

/// Renders a block into a string, in a scope of its own.
Result<Value> TemplateRenderer::run_captured(const Block& block) {
    Capture capture(*this);
    {
        const ScopeFrame frame(*this);
        BALLAST_TRY_STATUS(run_block(block).map([](Flow) {}));
    }
    return values_.string(capture.take());
}

Status TemplateRenderer::run_set_block(const Statement& node) {
    BALLAST_TRY(auto value, run_captured(node.body));
    if (node.expressions[0]) {
        BALLAST_TRY(value, evaluate_filter(*node.expressions[0], &value));
    }
    return assign(node.targets[0], value);
}

Status TemplateRenderer::run_filter_block(const Statement& node) {
    BALLAST_TRY(const auto body, run_captured(node.body));
    BALLAST_TRY(const auto value, evaluate_filter(*node.expressions[0], &body));
    return emit_value(value);
}

Status TemplateRenderer::run_macro(const Statement& node) {
    BALLAST_TRY(auto macro, make_macro(*node.macro));
    bind(node.symbol, std::move(macro));
    return {};
}

Status TemplateRenderer::run_call_block(const Statement& node) {
    BALLAST_TRY(const auto caller, make_macro(*node.macro));
    BALLAST_TRY(const auto value, evaluate_call(*node.expressions[0], &caller));
    return emit_value(value);
}

/// The items that pass a loop's own `if`, which sees the targets but not the body's names.
Result<Value> TemplateRenderer::filter_loop_items(const Statement& node, const Value& iterable) {
    BALLAST_TRY(auto cursor, Cursor::over(values_, iterable));
    ScopeFrame frame(*this);
    std::vector<Value> passed;
    while (true) {
        BALLAST_TRY(auto item, cursor.next());
        if (!item) {
            return values_.iterator(std::move(passed));
        }
        frame.renew();
        BALLAST_TRY_STATUS(assign(node.targets[0], *item));
        BALLAST_TRY(const auto condition, evaluate(*node.expressions[1]));
        if (truthy(condition)) {
            BALLAST_TRY_STATUS(heap_.ensure((passed.size() + 1) * sizeof(Value)));
            passed.push_back(*std::move(item));
        }
    }
}

Status TemplateRenderer::run_loop(const Statement& node,
                                  const Value& iterable,
                                  std::int64_t depth0) {
    Value items = iterable;
    if (node.expressions[1]) {
        BALLAST_TRY(items, filter_loop_items(node, iterable));
    }
    BALLAST_TRY(auto cursor, Cursor::over(values_, items));
    const auto state = std::make_shared<LoopState>(std::move(cursor));
    state->node = &node;
    state->scope = scope_;
    state->depth0 = depth0;
    Value loop;
    if (node.uses_loop) {
        BALLAST_TRY(auto object, make_callable(CallableKind::kLoop, "loop"));
        object->depth = items.depth() + 1;
        object->loop = state;
        loop = Value::of(std::move(object));
    }
    bool any = false;
    const Status status = run_loop_body(*state, loop, any);
    state->active = false;
    state->last_changed.reset();
    BALLAST_TRY_STATUS(status);
    if (!any && !node.otherwise.empty()) {
        const ScopeFrame frame(*this);
        return run_block(node.otherwise).map([](Flow) {});
    }
    return {};
}

Status TemplateRenderer::run_loop_body(LoopState& state, const Value& loop, bool& any) {
    const Statement& node = *state.node;
    ScopeFrame frame(*this);
    while (true) {
        std::optional<Value> item = std::exchange(state.peeked, std::nullopt);
        if (!item) {
            BALLAST_TRY(item, state.cursor.next());
        }
        if (!item) {
            return {};
        }
        if (state.index0 >= 0) {
            state.previous = state.current;
        }
        ++state.index0;
        state.current = *item;
        frame.renew();
        if (node.uses_loop) {
            bind(kSymbolLoop, loop);
        }
        BALLAST_TRY_STATUS(assign(node.targets[0], *item));
        BALLAST_TRY(const Flow flow, run_block(node.body));
        if (flow == Flow::kBreak) {
            return {};
        }
        // As Jinja2 has it: a round that `break` or `continue` cuts short does not count.
        any = any || flow == Flow::kNormal;
    }
}

}  // namespace ballast::chat
