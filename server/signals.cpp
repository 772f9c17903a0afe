// SPDX-License-Identifier: MIT
// The self-pipe. Handlers only write a byte or leave: both are safe inside a signal.
#include "server/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace ballast::server {

namespace {

// A handler has no argument but the signal's number, hence these two; lock-free.
std::atomic<int> write_end{-1};
std::atomic<bool> stop_seen{false};

void write_event(Event event) {
    const char byte = event == Event::kStop ? 's' : 'l';
    const int saved = errno;
    // The pipe never fills: at most one byte is written for each of the two events.
    [[maybe_unused]] const ssize_t n = ::write(write_end.load(), &byte, 1);
    errno = saved;
}

extern "C" void on_stop_signal(int number) {
    if (stop_seen.exchange(true)) {
        ::_exit(128 + number);
    }
    write_event(Event::kStop);
}

}  // namespace

Result<Signals> Signals::install() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
        return fail(ErrorCode::kIo, fmt::format("Cannot open a pipe: {}.", std::strerror(errno)));
    }
    write_end.store(ends[1]);
    stop_seen.store(false);
    struct sigaction action {};
    action.sa_handler = on_stop_signal;
    ::sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGTERM, &action, nullptr);
    ::sigaction(SIGINT, &action, nullptr);
    // The terminal has gone; where nohup has said that this does not matter, it stays ignored.
    struct sigaction hangup {};
    if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
        ::sigaction(SIGHUP, &action, nullptr);
    }
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, nullptr);
    return Signals(ends[0]);
}

void Signals::post(Event event) {
    write_event(event);
}

std::optional<Event> Signals::wait(std::optional<Nanoseconds> timeout) {
    int milliseconds = -1;
    if (timeout) {
        const auto wanted = std::chrono::ceil<std::chrono::milliseconds>(*timeout).count();
        milliseconds = static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(wanted, 0),
                                                               std::numeric_limits<int>::max()));
    }
    pollfd entry{.fd = read_end_, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, milliseconds) <= 0) {
        return std::nullopt;  // the time is over, or a signal interrupted: the caller waits again
    }
    char byte = 0;
    if (::read(read_end_, &byte, 1) != 1) {
        return std::nullopt;
    }
    return byte == 's' ? Event::kStop : Event::kLoaded;
}

}  // namespace ballast::server
