// SPDX-License-Identifier: MIT
// A chat template: the Jinja program inside a model file that turns messages into a prompt. Our
// own interpreter for the subset that templates use; no host objects, and limits on steps, depth
// and output, so that a template from an untrusted file cannot hang or bloat the server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "engine/base/result.h"

namespace ballast::chat {

struct RenderLimits {
    std::uint64_t steps_max = 20'000'000;
    std::uint32_t depth_max = 200;
    std::uint64_t output_bytes_max = 64ULL << 20;
    /// Of all values that live at once, the converted variables among them.
    std::uint64_t memory_bytes_max = 256ULL << 20;
};

/// Parsed once, immutable afterwards; render() may be called from any thread at the same time.
class ChatTemplate {
  public:
    /// Errors: kInvalidRequest with the line and what was not understood.
    static Result<ChatTemplate> parse(std::string_view source);

    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;
    ~ChatTemplate();

    /// Renders with the members of `variables` (an object: messages, tools, documents,
    /// add_generation_prompt, bos_token, eos_token, …) as the template's globals, exactly as Jinja2
    /// with trim_blocks and lstrip_blocks does. unix_seconds is what strftime_now formats (UTC).
    /// Errors: kInvalidRequest; for raise_exception its message, word for word.
    Result<std::string> render(const nlohmann::ordered_json& variables,
                               std::int64_t unix_seconds,
                               const RenderLimits& limits = {}) const;

    const std::string& source() const;

  private:
    struct Program;
    explicit ChatTemplate(std::unique_ptr<Program> program);
    std::unique_ptr<Program> program_;
};

}  // namespace ballast::chat
