// SPDX-License-Identifier: MIT
// The HTTP server: io threads, the listener, and the ordered stop. Transport only; what it serves
// comes in as a Router.
#pragma once

#include <memory>

#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "server/http/observer.h"
#include "server/http/options.h"
#include "server/http/reply.h"
#include "server/http/router.h"

namespace ballast::http {

/// What the server borrows; all of it outlives the server.
struct ServerParts {
    const HttpOptions& options;
    const Router& router;
    ErrorWriter error_writer;
    Observer& observer;
    const Clock& clock;
};

/// Created, started and stopped by one thread; handlers run on its io threads.
class Server {
  public:
    /// Binds and listens, or takes over a listening TCP socket (socket activation) if
    /// inherited_fd ≥ 0. Errors: one sentence that names the address and the reason.
    static Result<std::unique_ptr<Server>> create(ServerParts parts, int inherited_fd = -1);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    /// The port in use, also where options.port was 0.
    int port() const;
    /// Starts the io threads and accepts connections.
    void start();
    /// Stops accepting, closes idle connections, gives running requests until the deadline,
    /// then cancels them, then cuts. Returns when no connection is left and the io threads have
    /// ended. Calling it again does nothing.
    void stop(Nanoseconds deadline);

  private:
    struct State;
    std::unique_ptr<State> state_;

  public:
    /// For create() alone: nobody else can name a State.
    explicit Server(std::unique_ptr<State> state);
};

}  // namespace ballast::http
