// SPDX-License-Identifier: MIT
// The parsed template: immutable after parsing and shared by all renderings. Names are numbered, so
// that scopes compare numbers. Nodes are plain structs with a kind; the comments say which fields a
// kind uses. Their nesting is bounded by the parser, so walking them recursively is safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/chat/template_operators.h"
#include "engine/chat/template_value.h"

namespace ballast::chat {

using SymbolId = std::uint32_t;

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Block = std::vector<std::unique_ptr<Statement>>;

enum class ExpressionKind {
    kConstant,     // constant
    kName,         // symbol, text
    kTuple,        // operands
    kList,         // operands
    kDict,         // operands: key, value, key, value, …
    kAttribute,    // operands[0], text
    kItem,         // operands[0] [ operands[1] ]
    kSlice,        // operands[0] [ operands[1..3] ], absent bounds null
    kCall,         // operands[0], arguments
    kFilter,       // operands[0] (null for the body of a filter block), text, arguments
    kTest,         // operands[0], text, arguments
    kNot,          // operands[0]
    kNegate,       // operands[0]
    kPlus,         // operands[0]
    kAnd,          // operands
    kOr,           // operands
    kConcat,       // operands
    kArithmetic,   // operands[0] operators[0] operands[1] operators[1] …, from left to right
    kCompare,      // the same, chained as Python does
    kConditional,  // operands[0] if operands[1] else operands[2], which may be null
};

struct ArgumentNodes {
    std::vector<ExpressionPtr> positional;
    std::vector<std::pair<std::string, ExpressionPtr>> named;
    /// `*sequence` and `**mapping`, or null.
    ExpressionPtr spread;
    ExpressionPtr spread_named;
};

struct Expression {
    ExpressionKind kind = ExpressionKind::kConstant;
    std::uint32_t line = 0;
    SymbolId symbol = 0;
    std::string text;
    Value constant;
    std::vector<ExpressionPtr> operands;
    std::vector<Operator> operators;
    ArgumentNodes arguments;
    /// Levels of nodes, this one included.
    std::uint32_t height = 1;
};

/// What an assignment writes to: a name, `namespace.attribute`, or a tuple of targets.
struct Target {
    SymbolId symbol = 0;
    std::string name;
    std::string attribute;
    std::vector<Target> parts;
};

struct MacroNode {
    std::string name;
    struct Parameter {
        SymbolId symbol = 0;
        std::string name;
        ExpressionPtr fallback;
    };
    std::vector<Parameter> parameters;
    Block body;
    /// Which of the implicit names the body mentions; decides what surplus arguments do.
    bool uses_caller = false;
    bool uses_varargs = false;
    bool uses_kwargs = false;
};

enum class StatementKind {
    kText,      // text
    kOutput,    // expressions
    kFor,       // target, expressions[0] iterable, [1] filter or null; body, otherwise; recursive
    kIf,        // expressions[i] guards branches[i]; otherwise
    kSet,       // target, expressions[0]
    kSetBlock,  // target, expressions[0] filter chain or null; body
    kFilterBlock,  // expressions[0] filter chain; body
    kMacro,        // macro, symbol
    kCall,         // expressions[0] the call, macro = what becomes `caller`
    kWith,         // targets[i] = expressions[i]; body
    kScope,        // body
    kBreak,
    kContinue,
};

struct Statement {
    StatementKind kind = StatementKind::kText;
    std::uint32_t line = 0;
    SymbolId symbol = 0;
    std::string text;
    std::vector<ExpressionPtr> expressions;
    std::vector<Target> targets;
    Block body;
    Block otherwise;
    std::vector<Block> branches;
    std::unique_ptr<MacroNode> macro;
    bool recursive = false;
    bool uses_loop = false;
};

/// Names that the interpreter itself binds, numbered first.
enum WellKnownSymbol : SymbolId {
    kSymbolLoop,
    kSymbolCaller,
    kSymbolVarargs,
    kSymbolKwargs,
    kWellKnownSymbols,
};

struct TemplateProgram {
    Block body;
    /// SymbolId → name.
    std::vector<std::string> symbols;
};

}  // namespace ballast::chat
