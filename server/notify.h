// SPDX-License-Identifier: MIT
// Talks to the service manager by hand: readiness, status and watchdog as one datagram each
// (sd_notify(3)), and sockets it has opened for us (sd_listen_fds(3)). Without a service manager
// every call does nothing.
#pragma once

#include <optional>
#include <string>

#include "config/environment.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"

namespace ballast::server {

/// The way to the service manager. Used on the daemon's thread.
class Notifier {
  public:
    /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
    static Notifier from_environment(const config::Environment& environment);

    Notifier() = default;
    Notifier(std::string socket, std::optional<Nanoseconds> watchdog)
        : socket_(std::move(socket)), watchdog_(watchdog) {}

    bool active() const { return !socket_.empty(); }
    /// Sends assignments separated by newlines, e.g. "READY=1\nSTATUS=Serving". A socket name that
    /// begins with '@' is abstract.
    Status send(const std::string& state) const;
    /// How long the service manager waits for a sign of life; empty: it does not watch.
    std::optional<Nanoseconds> watchdog() const { return watchdog_; }

  private:
    std::string socket_;
    std::optional<Nanoseconds> watchdog_;
};

/// Whether a sign of life may be given: the engine is idle, or made a step within the limit.
bool makes_progress(bool idle, Nanoseconds since_progress, Nanoseconds limit);

/// The listening socket that the service manager passed, or −1 if it passed none. Errors: several
/// sockets, or one that is not a listening stream socket.
Result<int> inherited_socket(const config::Environment& environment);

}  // namespace ballast::server
