// SPDX-License-Identifier: MIT
// Turns tokens into the syntax tree, by recursive descent with Jinja2's grammar and precedences.
// Second step of ChatTemplate::parse.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/result.h"
#include "engine/chat/template_ast.h"
#include "engine/chat/template_lexer.h"

namespace ballast::chat {

Result<TemplateProgram> parse_template(std::string_view source);

/// One parse. Statements are in template_parser.cpp, expressions in template_parse_*.cpp.
class TemplateParser {
  public:
    explicit TemplateParser(std::vector<Token> tokens);

    Result<TemplateProgram> run();

  private:
    /// Nesting of blocks and brackets, and so of the tree; bounds recursion here and in rendering.
    static constexpr std::uint32_t kDepthMax = 150;
    /// Terms after one another (`a.b.c`, `x|f|g`) also nest in the tree: its height is bounded too.
    static constexpr std::uint32_t kHeightMax = 250;

    /// Counts one level for as long as it lives.
    class Level {
      public:
        explicit Level(std::uint32_t& depth) : depth_(depth) { ++depth_; }
        ~Level() { --depth_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

      private:
        std::uint32_t& depth_;
    };
    Status check_depth() const;

    const Token& current() const { return tokens_[position_]; }
    const Token& ahead() const;
    const Token& take();
    bool is_name(std::string_view name) const;
    bool is_operator(std::string_view text) const;
    bool skip_name(std::string_view name);
    bool skip_operator(std::string_view text);
    Status expect_operator(std::string_view text);
    Result<std::string> expect_name();
    Status expect_block_end();
    tl::unexpected<Error> unexpected(std::string_view wanted) const;
    SymbolId intern(const std::string& name);

    Result<Block> parse_body(std::initializer_list<std::string_view> end_names);
    Result<std::unique_ptr<Statement>> parse_statement();
    Status parse_for(Statement& node);
    Status parse_if(Statement& node);
    Status parse_set(Statement& node);
    Status parse_macro(Statement& node);
    Status parse_call_block(Statement& node);
    Status parse_filter_block(Statement& node);
    Status parse_with(Statement& node);
    Status parse_print(Statement& node);
    Status parse_signature(MacroNode& macro);
    Status parse_macro_body(MacroNode& macro, std::string_view end_name);
    Result<Target> parse_target(bool allow_attribute, bool allow_tuple);
    Result<Target> parse_single_target(bool allow_attribute);

    Result<ExpressionPtr> parse_tuple(bool with_conditional, bool parenthesised);
    bool tuple_ends() const;
    Result<ExpressionPtr> parse_expression(bool with_conditional = true);
    Result<ExpressionPtr> parse_conditional();
    Result<ExpressionPtr> parse_or();
    Result<ExpressionPtr> parse_and();
    Result<ExpressionPtr> parse_not();
    Result<ExpressionPtr> parse_compare();
    Result<ExpressionPtr> parse_sum();
    Result<ExpressionPtr> parse_concat();
    Result<ExpressionPtr> parse_product();
    Result<ExpressionPtr> parse_power();
    Result<ExpressionPtr> parse_unary(bool with_filter = true);
    Result<ExpressionPtr> parse_primary();
    Result<ExpressionPtr> parse_list();
    Result<ExpressionPtr> parse_dict();
    Result<ExpressionPtr> parse_postfix(ExpressionPtr node);
    Result<ExpressionPtr> parse_filters_and_tests(ExpressionPtr node);
    Result<ExpressionPtr> parse_filter(ExpressionPtr node);
    Result<ExpressionPtr> parse_filter_chain(ExpressionPtr node);
    Result<ExpressionPtr> parse_test(ExpressionPtr node);
    Result<ExpressionPtr> parse_subscript(ExpressionPtr node);
    Result<ExpressionPtr> parse_subscript_item();
    Result<ExpressionPtr> parse_call(ExpressionPtr callee);
    Status parse_arguments(ArgumentNodes& arguments);
    Status parse_argument(ArgumentNodes& arguments);
    Result<std::string> dotted_name();

    ExpressionPtr make(ExpressionKind kind) const;
    Result<ExpressionPtr> measured(ExpressionPtr node) const;
    ExpressionPtr make_name(const std::string& name);

    std::vector<Token> tokens_;
    std::size_t position_ = 0;
    std::uint32_t depth_ = 0;
    std::vector<std::string> symbols_;
    std::unordered_map<std::string, SymbolId> symbol_ids_;
    /// Names mentioned since the start of the parse, per well-known symbol: how a loop or a macro
    /// learns what its body uses.
    std::vector<std::uint32_t> mentions_;
    std::uint32_t loops_ = 0;
};

}  // namespace ballast::chat
