// SPDX-License-Identifier: MIT
// Formats the line and writes it with one call, so that lines of several threads do not mix.
#include "engine/base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <string>

namespace ballast {

namespace {

constexpr std::array<const char*, 4> kNames = {"debug", "info", "warning", "error"};
// syslog priorities: debug 7, informational 6, warning 4, error 3.
constexpr std::array<const char*, 4> kPriorities = {"<7>", "<6>", "<4>", "<3>"};

std::atomic<LogLevel> lowest{LogLevel::kInfo};
std::atomic<bool> for_journal{false};

}  // namespace

void set_log_level(LogLevel level) {
    lowest.store(level, std::memory_order_relaxed);
}
void set_log_journal(bool journal) {
    for_journal.store(journal, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
    return level >= lowest.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view text) {
    const auto index = static_cast<std::size_t>(level);
    std::string line;
    if (for_journal.load(std::memory_order_relaxed)) {
        line = kPriorities.at(index);
    } else {
        line = fmt::format("ballast {}: ", kNames.at(index));
    }
    for (const char c : text) {
        line += (c == '\n' || c == '\r') ? ' ' : c;
    }
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace ballast
