// SPDX-License-Identifier: MIT
// Printing for people.
#include "server/cli/report.h"

#include <array>
#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace ballast::cli {

int report(const Error& error, int exit_code) {
    constexpr std::size_t kMessageBytesMax = 4096;
    const std::string line =
        fmt::format("ballast: {}\n", printable(error.message, kMessageBytesMax));
    // Not fmt::print, which throws where stderr is closed or full: nobody is left to tell.
    static_cast<void>(std::fputs(line.c_str(), stderr));
    return exit_code;
}

std::string printable(std::string_view text, std::size_t bytes_max) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        // Cut only before the first byte of a character, never within one.
        if (i >= bytes_max && (byte & 0xC0U) != 0x80U) {
            return out + "…";
        }
        if (byte == '\n') {
            out += "\\n";
        } else if (byte < 0x20 || byte == 0x7F) {
            out += fmt::format("\\x{:02X}", byte);
        } else {
            out += text[i];
        }
    }
    return out;
}

std::string format_bytes(std::uint64_t bytes) {
    constexpr std::array<const char*, 5> kUnits = {"bytes", "kB", "MB", "GB", "TB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1000.0 && unit + 1 < kUnits.size()) {
        value /= 1000.0;
        ++unit;
    }
    return unit == 0 ? fmt::format("{} bytes", bytes)
                     : fmt::format("{:.1f} {}", value, kUnits.at(unit));
}

}  // namespace ballast::cli
