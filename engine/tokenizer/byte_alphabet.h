// SPDX-License-Identifier: MIT
// GPT-2's way to spell any bytes with visible characters: printable bytes of Latin-1 stand for
// themselves, the other 68 are U+0100 to U+0143 in rising order.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace ballast::tokenizer {

/// Immutable; made once by each tokenizer.
class ByteAlphabet {
  public:
    ByteAlphabet();

    /// The character that spells a byte, as UTF-8.
    std::string_view spelling(unsigned char byte) const { return spellings_[byte]; }
    /// The spelling of several bytes.
    std::string spell(std::string_view bytes) const;
    /// The bytes a piece spells. Characters outside the alphabet stand for themselves.
    std::string unspell(std::string_view piece) const;

  private:
    static constexpr std::size_t kCodePoints = 0x100 + 68;
    std::array<std::string, 256> spellings_;
    std::array<int, kCodePoints> bytes_;  // by code point; −1: not of the alphabet
};

}  // namespace ballast::tokenizer
