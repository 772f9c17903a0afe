// SPDX-License-Identifier: MIT
// The log: one line a message on stderr, with the <N> priority prefix that journald reads when
// JOURNAL_STREAM is set. No files and no rotation: the service manager does that.
#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace ballast {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Sets the lowest level that is written. Call before threads start.
void set_log_level(LogLevel level);
/// Whether lines carry journald's priority prefix. Call before threads start.
void set_log_journal(bool journal);
/// Whether a message of this level would be written.
bool log_enabled(LogLevel level);
/// Writes one line; newlines inside the text become spaces. Any thread.
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::kDebug)) {
        log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
    }
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::kInfo)) {
        log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
    }
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::kWarning)) {
        log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
    }
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
    log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ballast
