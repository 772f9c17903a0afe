// SPDX-License-Identifier: MIT
// Signals as events: handlers write to a pipe, and the daemon's thread waits on its other end.
#pragma once

#include <optional>

#include "engine/base/clock.h"
#include "engine/base/result.h"

namespace ballast::server {

/// What the daemon's thread waits for.
enum class Event {
    kStop,    // SIGTERM, SIGINT or SIGHUP, once
    kLoaded,  // the loading thread has ended
};

/// Installs the handlers: SIGTERM, SIGINT and, unless it is ignored, SIGHUP give kStop the first
/// time and end the process at once the second time; SIGPIPE is ignored. One object a process,
/// which restores nothing: it lives as long as the daemon.
class Signals {
  public:
    /// kIo if no pipe can be opened.
    static Result<Signals> install();

    /// Puts an event in the queue. Any thread.
    void post(Event event);
    /// Sleeps until there is an event; empty when the timeout is over first. No timeout: for ever.
    std::optional<Event> wait(std::optional<Nanoseconds> timeout);

  private:
    explicit Signals(int read_end) : read_end_(read_end) {}
    int read_end_;
};

}  // namespace ballast::server
