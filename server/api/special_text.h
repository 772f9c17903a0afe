// SPDX-License-Identifier: MIT
// Finds the text of control tokens (`<|im_start|>`) inside other text. What a user writes must not
// become a control token; only the chat template's own text may.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::api {

/// A sorted list of pieces. Immutable; any thread.
class SpecialText {
  public:
    SpecialText() = default;
    /// Empty pieces are ignored.
    explicit SpecialText(std::vector<std::string> pieces);

    /// Length of the longest piece that starts at `position`, or 0.
    std::size_t match(std::string_view text, std::size_t position) const;
    /// Whether any piece occurs in the text.
    bool occurs_in(std::string_view text) const;

  private:
    std::vector<std::string> pieces_;  // sorted
    bool begins_[256] = {};            // bytes that begin a piece
};

}  // namespace ballast::api
