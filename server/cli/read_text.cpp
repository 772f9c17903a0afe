// SPDX-License-Identifier: MIT
// File reading for commands.
#include "server/cli/read_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

namespace ballast::cli {

namespace {

Result<std::string> read_all(int descriptor, const std::string& name, std::size_t bytes_max) {
    std::string text;
    std::array<char, 65536> piece{};
    while (true) {
        const ssize_t n = ::read(descriptor, piece.data(), piece.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail(ErrorCode::kIo,
                        fmt::format("Cannot read {}: {}.", name, std::strerror(errno)));
        }
        if (n == 0) {
            return text;
        }
        text.append(piece.data(), static_cast<std::size_t>(n));
        if (text.size() > bytes_max) {
            return fail(
                ErrorCode::kTooLarge,
                fmt::format("Cannot read {}: it is larger than {} bytes.", name, bytes_max));
        }
    }
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, std::size_t bytes_max) {
    if (std::string why = explain_unreadable(path); !why.empty()) {
        return fail(ErrorCode::kIo, std::move(why));
    }
    // Without O_NONBLOCK the open of a named pipe waits for a writer.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return fail(ErrorCode::kIo, fmt::format("Cannot read {}: {}.", path, std::strerror(errno)));
    }
    Result<std::string> text = read_all(descriptor, path, bytes_max);
    ::close(descriptor);
    return text;
}

Result<std::string> read_standard_input(std::size_t bytes_max) {
    return read_all(STDIN_FILENO, "standard input", bytes_max);
}

std::string explain_unreadable(const std::string& path) {
    if (path.empty()) {
        return "The path is empty.";
    }
    std::error_code ignored;
    const std::filesystem::path whole = std::filesystem::absolute(path, ignored);
    std::filesystem::path reached;
    for (const std::filesystem::path& part : whole) {
        const bool is_last = (reached / part) == whole;
        reached /= part;
        struct stat facts {};
        if (::stat(reached.c_str(), &facts) != 0) {
            return fmt::format(
                "Cannot read {}: {}: {}.", path, reached.string(), std::strerror(errno));
        }
        if (is_last) {
            break;
        }
        if (!S_ISDIR(facts.st_mode)) {
            return fmt::format("Cannot read {}: {} is not a folder.", path, reached.string());
        }
        if (::access(reached.c_str(), X_OK) != 0) {
            return fmt::format("Cannot read {}: user {} may not enter the folder {}.",
                               path,
                               ::geteuid(),
                               reached.string());
        }
    }
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) {
        return fmt::format("Cannot read {}: {}.", path, std::strerror(errno));
    }
    if (!S_ISREG(facts.st_mode)) {
        return fmt::format("Cannot read {}: it is not a regular file.", path);
    }
    if (::access(path.c_str(), R_OK) != 0) {
        return fmt::format("Cannot read {}: user {} may not read it.", path, ::geteuid());
    }
    return "";
}

}  // namespace ballast::cli
