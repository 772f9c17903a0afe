// SPDX-License-Identifier: MIT
// Finding a text in another in time linear in both, whatever they hold: the library's search takes
// their product on texts made for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ballast::chat {

/// Prepared for one needle, which is borrowed; good for any number of searches in one direction.
class TextSearch {
  public:
    enum class Direction { kForward, kBackward };

    explicit TextSearch(std::string_view needle, Direction direction = Direction::kForward);

    /// The first occurrence at or after `from`, or the last that ends at or before `from` bytes
    /// from the end when searching backward; npos if there is none.
    std::size_t find(std::string_view text, std::size_t from = 0) const;

  private:
    /// Up to this size the product is harmless and the library's search quicker.
    static constexpr std::size_t kShortMax = 64;

    char needle_at(std::size_t i) const {
        return direction_ == Direction::kForward ? needle_[i] : needle_[needle_.size() - 1 - i];
    }

    std::string_view needle_;
    Direction direction_;
    /// Knuth-Morris-Pratt: for each prefix the length of its longest proper border.
    std::vector<std::uint32_t> border_;
};

}  // namespace ballast::chat
