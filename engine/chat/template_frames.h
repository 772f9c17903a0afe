// SPDX-License-Identifier: MIT
// The guards of TemplateRenderer: what a block, a capture or a level of nesting takes, and gives
// back when it is left, also by an error.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/chat/template_eval.h"

namespace ballast::chat {

/// A new innermost scope.
class TemplateRenderer::ScopeFrame {
  public:
    ScopeFrame(TemplateRenderer& renderer, Scope* parent)
        : renderer_(renderer), outer_(renderer.scope_) {
        open(parent);
    }
    explicit ScopeFrame(TemplateRenderer& renderer) : ScopeFrame(renderer, renderer.scope_) {}
    ~ScopeFrame() {
        close();
        renderer_.scope_ = outer_;
    }
    ScopeFrame(const ScopeFrame&) = delete;
    ScopeFrame& operator=(const ScopeFrame&) = delete;

    /// Starts over with no names, for the next round of a loop.
    void renew() {
        if (!scope_->captured) {
            scope_->names.clear();
            return;
        }
        Scope* parent = scope_->parent;
        close();
        open(parent);
    }

  private:
    void open(Scope* parent) {
        scope_ = std::make_unique<Scope>();
        scope_->parent = parent;
        renderer_.scope_ = scope_.get();
    }
    void close() {
        if (scope_->captured) {
            renderer_.retained_scopes_.push_back(std::move(scope_));
        }
    }

    TemplateRenderer& renderer_;
    Scope* outer_;
    std::unique_ptr<Scope> scope_;
};

/// Output goes to its own buffer.
class TemplateRenderer::Capture {
  public:
    explicit Capture(TemplateRenderer& renderer)
        : renderer_(renderer), outer_(renderer.out_), outer_bytes_(renderer.output_bytes_) {
        renderer.out_ = &text_;
    }
    ~Capture() {
        renderer_.out_ = outer_;
        renderer_.output_bytes_ = outer_bytes_;
    }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

    std::string take() { return std::move(text_); }

  private:
    TemplateRenderer& renderer_;
    std::string* outer_;
    std::uint64_t outer_bytes_;
    std::string text_;
};

/// One level of nesting.
class TemplateRenderer::Depth {
  public:
    explicit Depth(std::uint32_t& counter) : counter_(counter) { ++counter_; }
    ~Depth() { --counter_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

    Status check(std::uint32_t depth_max) const {
        if (counter_ > depth_max) {
            return template_error("the chat template nests too deeply");
        }
        return {};
    }

  private:
    std::uint32_t& counter_;
};

}  // namespace ballast::chat
