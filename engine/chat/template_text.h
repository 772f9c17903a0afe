// SPDX-License-Identifier: MIT
// Strings as templates see them: sequences of Unicode code points, held as UTF-8. Positions given
// to these functions are code points unless a name says bytes. A byte that is not valid UTF-8
// counts as one code point, so no input can make them read outside the string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::chat {

/// Bytes of the code point that starts at text[at] (at < text.size()).
std::size_t code_point_bytes(std::string_view text, std::size_t at);

/// The code point that starts at text[at]; a stray byte gives its own value.
char32_t code_point_at(std::string_view text, std::size_t at);

std::size_t count_code_points(std::string_view text);

/// Byte offset of the code point number `index`, at most text.size().
std::size_t byte_offset(std::string_view text, std::size_t index);

bool is_valid_utf8(std::string_view text);

/// With every \r\n and \r as \n.
std::string with_plain_newlines(std::string_view text);

void append_code_point(std::string& out, char32_t code_point);

/// What Python's str.isspace() accepts.
bool is_space(char32_t code_point);
/// Letters of any script, as far as ranges tell; used for title() and identifiers.
bool is_letter(char32_t code_point);
bool is_upper(char32_t code_point);
bool is_lower(char32_t code_point);

/// Case mapping of ASCII, Latin, Greek, Cyrillic and Armenian letters; others stay as they are.
char32_t to_lower(char32_t code_point);
char32_t to_upper(char32_t code_point);
std::string lower_text(std::string_view text);
std::string upper_text(std::string_view text);
/// First letter of the text upper, the rest lower, as str.capitalize().
std::string capitalize_text(std::string_view text);
/// First letter of each run of letters upper, the rest lower, as str.title().
std::string title_text(std::string_view text);

enum class Side { kBoth, kLeft, kRight };

/// Strips white space.
std::string_view strip_space(std::string_view text, Side side);
/// Strips any code point that occurs in `characters`.
std::string_view strip_characters(std::string_view text, std::string_view characters, Side side);

/// str.split() and str.rsplit(): an empty separator means runs of white space; splits_max < 0 means
/// no limit. The pieces point into `text`.
std::vector<std::string_view> split_text(std::string_view text,
                                         std::string_view separator,
                                         std::int64_t splits_max,
                                         bool from_right);

/// str.splitlines() without its ends.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);

}  // namespace ballast::chat
