// SPDX-License-Identifier: MIT
// Small comparisons and decodings that requests need.
#include "server/http/request.h"

#include <algorithm>

namespace ballast::http {

namespace {

constexpr std::size_t kRequestIdLengthMax = 128;

char lower(char c) {
    return (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
}

int hex_value(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    const char l = lower(c);
    return (l >= 'a' && l <= 'f') ? l - 'a' + 10 : -1;
}

}  // namespace

const std::string* Request::header(std::string_view name) const {
    for (const Header& h : headers) {
        if (equal_ignoring_case(h.name, name)) {
            return &h.value;
        }
    }
    return nullptr;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
        return lower(x) == lower(y);
    });
}

bool is_sane_request_id(std::string_view id) {
    if (id.empty() || id.size() > kRequestIdLengthMax) {
        return false;
    }
    return std::all_of(id.begin(), id.end(), [](char c) {
        const char l = lower(c);
        return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    });
}

bool percent_decode(std::string_view text, std::string& out) {
    out.clear();
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        if (i + 2 >= text.size()) {
            return false;
        }
        const int high = hex_value(text[i + 1]);
        const int low = hex_value(text[i + 2]);
        if (high < 0 || low < 0 || (high == 0 && low == 0)) {
            return false;
        }
        out += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return true;
}

}  // namespace ballast::http
