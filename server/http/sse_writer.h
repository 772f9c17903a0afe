// SPDX-License-Identifier: MIT
// Server-sent events over a streamed reply: framing only. The last stop of a token's way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "server/http/connection.h"
#include "server/http/task.h"

namespace ballast::http {

/// Lives in a handler's coroutine; borrows its connection.
class SseWriter {
  public:
    explicit SseWriter(Connection& connection) : connection_(connection) {}

    /// Sends status 200 and the headers of an event stream.
    Task<Status> start();
    bool started() const { return started_; }
    /// One event; `data` must be one line.
    Task<Status> event(std::string data);
    /// Several events with one write.
    Task<Status> events(std::vector<std::string> data);
    /// A line that clients skip; keeps the connection from looking dead.
    Task<Status> comment(std::string text);
    /// `data: [DONE]` and the end of the body.
    Task<Status> done();
    /// The end of the body without [DONE], after an error event.
    Task<Status> end();

  private:
    Connection& connection_;
    bool started_ = false;
};

/// "data: …\n\n"
std::string sse_event(std::string_view data);

}  // namespace ballast::http
