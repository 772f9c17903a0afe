// SPDX-License-Identifier: MIT
// The protocols are a datagram and three environment variables; a library is not needed.
#include "server/notify.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

namespace ballast::server {

namespace {

// The first descriptor the service manager passes (SD_LISTEN_FDS_START).
constexpr int kFirstDescriptor = 3;

std::optional<std::int64_t> number(const config::Environment& environment,
                                   const std::string& name) {
    const std::string text = config::variable(environment, name);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
}

tl::unexpected<Error> cannot_send(const std::string& socket, const char* why) {
    return fail(ErrorCode::kIo,
                fmt::format("Cannot notify the service manager at {}: {}.", socket, why));
}

}  // namespace

Notifier Notifier::from_environment(const config::Environment& environment) {
    std::optional<Nanoseconds> watchdog;
    const auto microseconds = number(environment, "WATCHDOG_USEC");
    const auto pid = number(environment, "WATCHDOG_PID");
    if (microseconds && *microseconds > 0 && (!pid || *pid == ::getpid())) {
        watchdog = std::chrono::microseconds(*microseconds);
    }
    return {config::variable(environment, "NOTIFY_SOCKET"), watchdog};
}

Status Notifier::send(const std::string& state) const {
    if (!active()) {
        return {};
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (socket_.front() != '/' && socket_.front() != '@') {
        return cannot_send(socket_, "this kind of address is not supported");
    }
    if (socket_.size() >= sizeof address.sun_path) {
        return cannot_send(socket_, "the name is too long");
    }
    std::memcpy(address.sun_path, socket_.data(), socket_.size());
    if (socket_.front() == '@') {
        address.sun_path[0] = '\0';
    }
    // An abstract name is exactly as long as its text; a path may be too, without its NUL.
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
    const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
        return cannot_send(socket_, std::strerror(errno));
    }
    // A service manager that does not read must not hang the daemon.
    const timeval limit{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
    ssize_t sent = 0;
    do {
        sent = ::sendto(descriptor, state.data(), state.size(), MSG_NOSIGNAL, generic, length);
    } while (sent < 0 && errno == EINTR);
    const int error = errno;
    ::close(descriptor);
    if (sent != static_cast<ssize_t>(state.size())) {
        return cannot_send(socket_, std::strerror(error));
    }
    return {};
}

bool makes_progress(bool idle, Nanoseconds since_progress, Nanoseconds limit) {
    return idle || since_progress < limit;
}

Result<int> inherited_socket(const config::Environment& environment) {
    const auto count = number(environment, "LISTEN_FDS");
    const auto pid = number(environment, "LISTEN_PID");
    // The variables may be meant for a parent that passed its environment on.
    if (!count || *count == 0 || !pid || *pid != ::getpid()) {
        return -1;
    }
    if (*count != 1) {
        return fail(ErrorCode::kInvalidRequest,
                    fmt::format("The service manager passed {} sockets; one is needed.", *count));
    }
    int listening = 0;
    socklen_t size = sizeof listening;
    int type = 0;
    socklen_t type_size = sizeof type;
    if (::getsockopt(kFirstDescriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 ||
        ::getsockopt(kFirstDescriptor, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 ||
        listening == 0 || type != SOCK_STREAM) {
        return fail(ErrorCode::kInvalidRequest,
                    "The service manager passed a descriptor that is no listening stream socket.");
    }
    ::fcntl(kFirstDescriptor, F_SETFD, FD_CLOEXEC);
    return kFirstDescriptor;
}

}  // namespace ballast::server
