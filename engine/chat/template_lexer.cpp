// SPDX-License-Identifier: MIT
// A hand-written scanner with two modes: text up to the next tag, and the inside of a tag.
#include "engine/chat/template_lexer.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "engine/chat/template_text.h"

namespace ballast::chat {

namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

int digit_value(char c) {
    if (is_digit(c)) {
        return c - '0';
    }
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

class Scanner {
  public:
    explicit Scanner(std::string source) : storage_(std::move(source)), source_(storage_) {}

    Result<std::vector<Token>> run();

  private:
    Status scan_comment();
    Status scan_raw(std::size_t body);
    Status scan_tag(bool block);
    Status scan_token();
    Status scan_operator();
    void scan_name();
    Status scan_string();
    Status scan_number();
    Status scan_prefixed_integer(int base);
    Status append_escape(std::string& out, std::string_view body, std::size_t& at) const;

    bool at(std::string_view text) const { return source_.substr(position_, text.size()) == text; }
    bool done() const { return position_ >= source_.size(); }
    void advance(std::size_t bytes);
    void skip_space();
    /// Where `{% raw %}` ends if it stands at the position, else 0.
    std::size_t raw_begin_end() const;
    std::size_t skip_space_from(std::size_t at) const;
    bool tag_ends(bool block);
    void trim_newline();
    void emit(TokenKind kind, std::string text = {});
    void emit_text(std::string_view text);
    std::string_view text_before_tag(std::string_view text, char sign, bool variable) const;
    tl::unexpected<Error> error(const std::string& message) const {
        return error_at(line_, message);
    }

    std::string storage_;
    std::string_view source_;
    std::size_t position_ = 0;
    std::uint32_t line_ = 1;
    /// Whether what was read last ended a line (or nothing was read yet).
    bool line_starting_ = true;
    /// Open brackets of the tag, as their closing characters.
    std::string open_;
    std::vector<Token> tokens_;
};

void Scanner::advance(std::size_t bytes) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(position_);
    line_ += static_cast<std::uint32_t>(
        std::count(begin, begin + static_cast<std::ptrdiff_t>(bytes), '\n'));
    position_ += bytes;
    if (bytes > 0) {
        line_starting_ = source_[position_ - 1] == '\n';
    }
}

std::size_t Scanner::skip_space_from(std::size_t at) const {
    while (at < source_.size() && is_space(code_point_at(source_, at))) {
        at += code_point_bytes(source_, at);
    }
    return at;
}

void Scanner::skip_space() {
    advance(skip_space_from(position_) - position_);
}

void Scanner::trim_newline() {
    if (at("\n")) {
        advance(1);
    }
}

void Scanner::emit(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
}

void Scanner::emit_text(std::string_view text) {
    if (!text.empty()) {
        emit(TokenKind::kText, std::string(text));
    }
}

std::string_view Scanner::text_before_tag(std::string_view text, char sign, bool variable) const {
    if (sign == '-') {
        return strip_space(text, Side::kRight);
    }
    if (sign == '+' || variable) {
        return text;
    }
    // lstrip_blocks: only white space between the start of the line and the tag.
    const std::size_t newline = text.rfind('\n');
    const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    if (start == 0 && !line_starting_) {
        return text;
    }
    return strip_space(text.substr(start), Side::kLeft).empty() ? text.substr(0, start) : text;
}

std::size_t Scanner::raw_begin_end() const {
    std::size_t at = position_ + 2;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) {
        ++at;
    }
    at = skip_space_from(at);
    if (source_.substr(at, 3) != "raw") {
        return 0;
    }
    at = skip_space_from(at + 3);
    if (source_.substr(at, 2) == "%}") {
        return at + 2;
    }
    return source_.substr(at, 3) == "-%}" ? skip_space_from(at + 3) : 0;
}

Result<std::vector<Token>> Scanner::run() {
    while (!done()) {
        std::size_t tag = position_;
        do {
            tag = source_.find('{', tag);
            if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
                tag = source_.size();
                break;
            }
            const char second = source_[tag + 1];
            if (second == '%' || second == '{' || second == '#') {
                break;
            }
            ++tag;
        } while (true);
        const std::string_view text = source_.substr(position_, tag - position_);
        if (tag == source_.size()) {
            emit_text(text);
            break;
        }
        const char second = source_[tag + 1];
        const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
        const std::string_view kept = text_before_tag(text, sign, second == '{');
        emit_text(kept);
        advance(tag - position_);
        if (second == '%') {
            if (const std::size_t body = raw_begin_end(); body != 0) {
                BALLAST_TRY_STATUS(scan_raw(body));
                continue;
            }
        }
        advance(sign == '-' || sign == '+' ? 3 : 2);
        if (second == '#') {
            BALLAST_TRY_STATUS(scan_comment());
        } else {
            BALLAST_TRY_STATUS(scan_tag(second == '%'));
        }
    }
    emit(TokenKind::kEnd);
    return std::move(tokens_);
}

Status Scanner::scan_comment() {
    const std::size_t end = source_.find("#}", position_);
    if (end == std::string_view::npos) {
        return error("Missing end of comment tag");
    }
    const char sign = end > position_ ? source_[end - 1] : ' ';
    advance(end + 2 - position_);
    if (sign == '-') {
        skip_space();
    } else if (sign != '+') {
        trim_newline();
    }
    return {};
}

Status Scanner::scan_raw(std::size_t body) {
    advance(body - position_);
    for (std::size_t tag = source_.find("{%", body); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 1)) {
        std::size_t at = tag + 2;
        const char sign = at < source_.size() ? source_[at] : ' ';
        at = skip_space_from(sign == '-' || sign == '+' ? at + 1 : at);
        if (source_.substr(at, 6) != "endraw") {
            continue;
        }
        at = skip_space_from(at + 6);
        const char end_sign = at < source_.size() ? source_[at] : ' ';
        at += end_sign == '-' || end_sign == '+' ? 1 : 0;
        if (source_.substr(at, 2) != "%}") {
            continue;
        }
        emit_text(text_before_tag(source_.substr(body, tag - body), sign, false));
        advance(at + 2 - position_);
        if (end_sign == '-') {
            skip_space();
        } else if (end_sign != '+') {
            trim_newline();
        }
        return {};
    }
    return error("Missing end of raw directive");
}

/// Consumes the end of the tag if it is here. An open bracket keeps `}}` from ending a variable.
bool Scanner::tag_ends(bool block) {
    const std::string_view end = block ? "%}" : "}}";
    if (!open_.empty()) {
        return false;
    }
    const bool strips = at("-") && source_.substr(position_ + 1, 2) == end;
    const bool keeps = block && at("+") && source_.substr(position_ + 1, 2) == end;
    if (!strips && !keeps && !at(end)) {
        return false;
    }
    emit(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd);
    advance(strips || keeps ? 3 : 2);
    if (strips) {
        skip_space();
    } else if (block && !keeps) {
        trim_newline();
    }
    return true;
}

Status Scanner::scan_tag(bool block) {
    emit(block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin);
    open_.clear();
    while (!done()) {
        if (tag_ends(block)) {
            return {};
        }
        BALLAST_TRY_STATUS(scan_token());
    }
    return error(block ? "unexpected end of template, expected '%}'"
                       : "unexpected end of template, expected '}}'");
}

Status Scanner::scan_token() {
    const char32_t c = code_point_at(source_, position_);
    if (is_space(c)) {
        skip_space();
        return {};
    }
    if (c < 0x80 && is_digit(static_cast<char>(c))) {
        return scan_number();
    }
    if (c == '_' || is_letter(c)) {
        scan_name();
        return {};
    }
    if (c == '\'' || c == '"') {
        return scan_string();
    }
    return scan_operator();
}

void Scanner::scan_name() {
    std::size_t end = position_;
    while (end < source_.size()) {
        const char32_t c = code_point_at(source_, end);
        const bool digit = c < 0x80 && is_digit(static_cast<char>(c));
        if (!digit && c != '_' && !is_letter(c)) {
            break;
        }
        end += code_point_bytes(source_, end);
    }
    emit(TokenKind::kName, std::string(source_.substr(position_, end - position_)));
    advance(end - position_);
}

Status Scanner::scan_operator() {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view op : kOperators) {
        if (!at(op)) {
            continue;
        }
        if (op == "(" || op == "[" || op == "{") {
            open_ += op == "(" ? ')' : (op == "[" ? ']' : '}');
        } else if (op == ")" || op == "]" || op == "}") {
            if (open_.empty() || open_.back() != op[0]) {
                return error("unexpected '" + std::string(op) + "'");
            }
            open_.pop_back();
        }
        emit(TokenKind::kOperator, std::string(op));
        advance(op.size());
        return {};
    }
    const std::size_t n = code_point_bytes(source_, position_);
    return error("unexpected character '" + std::string(source_.substr(position_, n)) + "'");
}

Status Scanner::append_escape(std::string& out, std::string_view body, std::size_t& i) const {
    // i stands on the character after the backslash.
    static constexpr std::string_view kNames = "\\'\"abfnrtv";
    static constexpr std::string_view kBytes = "\\'\"\a\b\f\n\r\t\v";
    const char c = body[i++];
    if (const std::size_t known = kNames.find(c); known != std::string_view::npos) {
        out += kBytes[known];
        return {};
    }
    if (c == '\n') {
        return {};
    }
    std::size_t digits = c == 'x' ? 2 : (c == 'u' ? 4 : (c == 'U' ? 8 : 0));
    int base = 16;
    if (c >= '0' && c <= '7') {
        base = 8;
        --i;
        for (digits = 1; digits < 3 && i + digits < body.size(); ++digits) {
            if (digit_value(body[i + digits]) >= 8) {
                break;
            }
        }
    }
    if (digits == 0) {
        // Python keeps a backslash that starts no escape.
        out += '\\';
        out += c;
        return {};
    }
    char32_t value = 0;
    for (std::size_t k = 0; k < digits; ++k) {
        const int digit = i < body.size() ? digit_value(body[i]) : 99;
        if (digit >= base) {
            return error("an escape in a string is cut short");
        }
        value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit);
        ++i;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        return error("an escape in a string names no character");
    }
    append_code_point(out, value);
    return {};
}

Status Scanner::scan_string() {
    const char quote = source_[position_];
    std::size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) {
        end += source_[end] == '\\' ? 2 : 1;
    }
    if (end >= source_.size()) {
        return error("a string is not closed");
    }
    const std::string_view body = source_.substr(position_ + 1, end - position_ - 1);
    std::string text;
    for (std::size_t i = 0; i < body.size();) {
        if (body[i] != '\\') {
            text += body[i++];
            continue;
        }
        BALLAST_TRY_STATUS(append_escape(text, body, ++i));
    }
    emit(TokenKind::kString, std::move(text));
    advance(end + 1 - position_);
    return {};
}

Status Scanner::scan_prefixed_integer(int base) {
    std::size_t end = position_ + 2;
    Integer value = 0;
    bool any = false;
    for (; end < source_.size(); ++end) {
        if (source_[end] == '_') {
            continue;
        }
        if (digit_value(source_[end]) >= base) {
            break;
        }
        any = true;
        if (__builtin_mul_overflow(value, Integer{base}, &value) ||
            __builtin_add_overflow(value, Integer{digit_value(source_[end])}, &value)) {
            return error("an integer is too large");
        }
    }
    if (!any) {
        return error("a number has no digits");
    }
    emit(TokenKind::kInteger);
    tokens_.back().integer = value;
    advance(end - position_);
    return {};
}

Status Scanner::scan_number() {
    const auto lower_at = [this](std::size_t i) {
        return i < source_.size() ? static_cast<char>(source_[i] | 0x20) : ' ';
    };
    const auto digit_at = [this](std::size_t i) {
        return i < source_.size() && is_digit(source_[i]);
    };
    if (source_[position_] == '0') {
        const char kind = lower_at(position_ + 1);
        if (kind == 'x' || kind == 'o' || kind == 'b') {
            return scan_prefixed_integer(kind == 'x' ? 16 : (kind == 'o' ? 8 : 2));
        }
    }
    std::string digits;
    std::size_t end = position_;
    const auto take_digits = [&] {
        while (digit_at(end) ||
               (end < source_.size() && source_[end] == '_' && digit_at(end + 1))) {
            if (source_[end] != '_') {
                digits += source_[end];
            }
            ++end;
        }
    };
    take_digits();
    bool real = false;
    // After a dot comes a subscript: in `a.0.1` there are two of them and no float.
    const bool subscript = position_ > 0 && source_[position_ - 1] == '.';
    if (!subscript && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
        real = true;
        digits += source_[end++];
        take_digits();
    }
    const std::size_t sign = lower_at(end) == 'e' ? end + 1 : source_.size();
    const bool has_sign = sign < source_.size() && (source_[sign] == '+' || source_[sign] == '-');
    if (!subscript && digit_at(has_sign ? sign + 1 : sign)) {
        real = true;
        digits += 'e';
        if (source_[sign] == '-') {
            digits += '-';
        }
        end = has_sign ? sign + 1 : sign;
        take_digits();
    }
    emit(real ? TokenKind::kFloat : TokenKind::kInteger);
    if (real) {
        // strtod, as libc++ has no from_chars for floating point; the program never sets a locale.
        tokens_.back().real = std::strtod(digits.c_str(), nullptr);
    } else {
        Integer value = 0;
        for (const char c : digits) {
            if (__builtin_mul_overflow(value, Integer{10}, &value) ||
                __builtin_add_overflow(value, Integer{c - '0'}, &value)) {
                return error("an integer is too large");
            }
        }
        tokens_.back().integer = value;
    }
    advance(end - position_);
    return {};
}

}  // namespace

tl::unexpected<Error> error_at(std::uint32_t line, const std::string& message) {
    return fail(ErrorCode::kInvalidRequest, "line " + std::to_string(line) + ": " + message);
}

Result<std::vector<Token>> tokenize_template(std::string_view source) {
    if (!is_valid_utf8(source)) {
        return fail(ErrorCode::kInvalidRequest, "the chat template is not valid UTF-8");
    }
    std::string text = with_plain_newlines(source);
    // One line end at the very end goes, as Jinja2 does by default.
    if (text.ends_with('\n')) {
        text.pop_back();
    }
    return Scanner(std::move(text)).run();
}

}  // namespace ballast::chat
