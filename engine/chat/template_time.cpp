// SPDX-License-Identifier: MIT
// Each directive is handed to the C library alone, and only if it is one whose length is small.
#include "engine/chat/template_time.h"

#include <ctime>

namespace ballast::chat {

Result<std::string> format_time(std::int64_t unix_seconds, std::string_view format) {
    const std::time_t moment = unix_seconds;
    std::tm fields{};
    if (gmtime_r(&moment, &fields) == nullptr) {
        return fail(ErrorCode::kInvalidRequest, "strftime_now() cannot express the time");
    }
    std::string out;
    for (std::size_t at = 0; at < format.size(); ++at) {
        if (format[at] != '%' || at + 1 >= format.size()) {
            out += format[at];
            continue;
        }
        // A minus drops leading zeros.
        const bool unpadded = format[at + 1] == '-' && at + 2 < format.size();
        const char directive = format[at + (unpadded ? 2 : 1)];
        constexpr std::string_view kKnown = "aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyY%";
        if (directive == 'f') {
            out += "000000";
        } else if (directive == 'z' || directive == 'Z') {
            // As for a Python datetime without a time zone: nothing.
        } else if (kKnown.find(directive) != std::string_view::npos) {
            const char pattern[4] = {
                '%', unpadded ? '-' : directive, unpadded ? directive : '\0', '\0'};
            char text[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            out.append(text, std::strftime(text, sizeof(text), pattern, &fields));
#pragma GCC diagnostic pop
        } else {
            out += '%';
            continue;
        }
        at += unpadded ? 2 : 1;
    }
    return out;
}

}  // namespace ballast::chat
