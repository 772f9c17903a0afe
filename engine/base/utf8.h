// SPDX-License-Identifier: MIT
// Small questions about UTF-8 text that may be broken or cut in the middle of a character.
// Well-formed means RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ballast {

/// What the first bytes of a text are.
struct Utf8Step {
    enum class Kind {
        kValid,       // one whole character
        kInvalid,     // bytes that no continuation can mend
        kIncomplete,  // the text ends inside a character that is well-formed so far
    };
    Kind kind = Kind::kInvalid;
    std::size_t length = 0;   // bytes it takes; for a broken character its longest good beginning,
                              // at least 1, as Unicode advises for U+FFFD substitution
    char32_t code_point = 0;  // if kValid
};

/// Looks at the beginning of a text that is not empty.
Utf8Step utf8_step(std::string_view text);

/// Length of the longest well-formed prefix: ends before the first broken or unfinished character.
std::size_t utf8_valid_prefix(std::string_view text);

bool utf8_is_valid(std::string_view text);

/// Bytes at the end of the text that begin a character and need more bytes; 0 to 3. What is before
/// them may still hold broken characters.
std::size_t utf8_incomplete_tail(std::string_view text);

/// The text with U+FFFD for each broken character, an unfinished last one included.
std::string utf8_replace_invalid(std::string_view text);

/// Appends one code point; a surrogate or a number above U+10FFFF becomes U+FFFD.
void utf8_append(std::string& text, char32_t code_point);

}  // namespace ballast
