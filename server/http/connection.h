// SPDX-License-Identifier: MIT
// What a handler may do with its connection besides returning a Reply.
#pragma once

#include <functional>
#include <string>

#include "engine/base/result.h"
#include "server/http/reply.h"
#include "server/http/task.h"

namespace ballast::http {

/// Implemented by Session, which waits for the handler: a reference to it stays valid until the
/// handler's coroutine has ended. Used on the connection's strand only.
class Connection {
  public:
    virtual ~Connection() = default;

    /// Calls `cancel` once, on the strand, when the client has gone or the server cuts what still
    /// runs; at once if that has happened already. An empty function removes it.
    virtual void on_cancel(std::function<void()> cancel) = 0;
    /// Nobody reads the reply any more.
    virtual bool client_gone() const = 0;
    /// The server is on its way out.
    virtual bool stopping() const = 0;

    /// Sends the head of a reply whose length is not known. `head.body` must be empty.
    virtual Task<Status> start_stream(Reply head) = 0;
    /// Sends bytes of the body. Errors: kIo (the client has gone), kTimeout.
    virtual Task<Status> write_stream(std::string bytes) = 0;
    /// Ends the body in a way that the client can tell from a cut connection.
    virtual Task<Status> end_stream() = 0;
};

}  // namespace ballast::http
