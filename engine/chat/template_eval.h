// SPDX-License-Identifier: MIT
// Runs a parsed template once. Third step of ChatTemplate: walks the tree, keeps scopes, collects
// output, and stops at the limits. One object per rendering, single-threaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/base/result.h"
#include "engine/chat/chat_template.h"
#include "engine/chat/template_ast.h"
#include "engine/chat/template_callable.h"
#include "engine/chat/template_heap.h"
#include "engine/chat/template_operators.h"
#include "engine/chat/template_value.h"
#include "engine/chat/template_values.h"

namespace ballast::chat {

/// Names bound by one block. A macro defined in a scope keeps it (and its parents) until the end of
/// the rendering; other scopes die with their block.
struct Scope {
    Scope* parent = nullptr;
    bool captured = false;
    Charge charge;
    std::vector<std::pair<SymbolId, Value>> names;
};

/// The state behind `loop`.
struct LoopState {
    explicit LoopState(Cursor items) : cursor(std::move(items)) {}

    const Statement* node = nullptr;
    Scope* scope = nullptr;
    Cursor cursor;
    std::int64_t index0 = -1;
    std::int64_t depth0 = 0;
    std::optional<Value> previous;
    Value current;
    std::optional<Value> peeked;
    /// What changed() was last called with; cleared when the loop ends, as it may hold the loop.
    std::optional<std::vector<Value>> last_changed;
    bool active = true;

    std::int64_t remaining() const { return cursor.remaining() + (peeked ? 1 : 0); }
};

class TemplateRenderer {
  public:
    TemplateRenderer(const TemplateProgram& program,
                     std::int64_t unix_seconds,
                     const RenderLimits& limits);

    Result<std::string> run(const nlohmann::ordered_json& variables);

  private:
    enum class Flow { kNormal, kBreak, kContinue };
    class ScopeFrame;
    class Capture;
    class Depth;

    /// Nodes of the tree within one another, for each level of calls that depth_max allows: a macro
    /// that calls itself inside a loop inside an if needs four.
    static constexpr std::uint32_t kNodesPerCall = 6;

    // Statements: template_eval.cpp.
    Status bind_variables(const nlohmann::ordered_json& variables);
    Result<Flow> run_block(const Block& block);
    Result<Flow> run_statement(const Statement& node);
    Result<Flow> run_if(const Statement& node);
    Result<Flow> run_scope(const Statement& node);
    Status run_output(const Statement& node);
    Status run_set(const Statement& node);
    Status run_set_block(const Statement& node);
    Status run_filter_block(const Statement& node);
    Status run_macro(const Statement& node);
    Status run_call_block(const Statement& node);
    Status run_loop(const Statement& node, const Value& iterable, std::int64_t depth0);
    Status run_loop_body(LoopState& state, const Value& loop, bool& any);
    Result<Value> filter_loop_items(const Statement& node, const Value& iterable);
    Result<Value> run_captured(const Block& block);
    Status assign(const Target& target, const Value& value);
    void bind(SymbolId symbol, Value value);
    Status emit(std::string_view text);
    Status emit_value(const Value& value);
    tl::unexpected<Error> located(Error error, std::uint32_t line);

    // Expressions: template_eval_expression.cpp.
    Result<Value> evaluate(const Expression& node);
    Result<Value> evaluate_kind(const Expression& node);
    Result<Value> evaluate_name(const Expression& node);
    Result<Value> evaluate_items(const Expression& node);
    Result<Value> evaluate_dict(const Expression& node);
    Result<Value> evaluate_slice(const Expression& node);
    Result<Value> evaluate_logic(const Expression& node);
    Result<Value> evaluate_concat(const Expression& node);
    Result<Value> evaluate_arithmetic(const Expression& node);
    Result<Value> evaluate_compare(const Expression& node);
    Result<Value> evaluate_conditional(const Expression& node);
    Result<Value> evaluate_test(const Expression& node);
    Result<Value> evaluate_filter(const Expression& node, const Value* body);
    Result<Value> attribute(const Value& object, const std::string& name);

    // Calls: template_eval_call.cpp.
    Result<Arguments> evaluate_arguments(const ArgumentNodes& nodes);
    Result<Value> evaluate_call(const Expression& node, const Value* caller);
    Result<Value> call_value(const Value& callee, const Arguments& arguments);
    Result<Value> call_macro(const CallableObject& macro, const Arguments& arguments);
    Status bind_macro_arguments(const MacroNode& macro, const Arguments& arguments);
    Status bind_surplus(const MacroNode& macro, const Arguments& arguments);
    Result<Value> call_function(std::string_view name, const Arguments& arguments);
    Result<Value> call_range(const Arguments& arguments);
    Result<Value> call_dict(const Arguments& arguments);
    Result<Value> call_namespace(const Arguments& arguments);
    Result<Value> call_raise(const Arguments& arguments);
    Result<Value> call_strftime(const Arguments& arguments);
    Result<Value> call_loop(const CallableObject& loop, const Arguments& arguments);
    Result<Value> call_bound(const CallableObject& method, const Arguments& arguments);
    Result<Value> loop_attribute(const Value& loop, std::string_view name);
    Result<Value> callable_attribute(const Value& object, std::string_view name);
    Result<std::shared_ptr<CallableObject>> make_callable(CallableKind kind, std::string_view name);
    Result<Value> make_macro(const MacroNode& macro);
    Result<std::optional<Value>> builtin_function(std::string_view name);

    const TemplateProgram& program_;
    const std::int64_t unix_seconds_;
    const RenderLimits limits_;
    Heap heap_;
    Values values_;
    std::vector<std::unique_ptr<NamespaceObject>> namespaces_;
    std::vector<std::unique_ptr<Scope>> retained_scopes_;
    /// By symbol: the variables given, and built-in functions once used.
    std::vector<std::optional<Value>> globals_;
    Scope* scope_ = nullptr;
    std::string* out_ = nullptr;
    /// Bytes in all output buffers that are being written.
    std::uint64_t output_bytes_ = 0;
    std::uint32_t node_depth_ = 0;
    std::uint32_t call_depth_ = 0;
    /// Whether the error on its way up already says where it comes from.
    bool error_located_ = false;
};

}  // namespace ballast::chat
