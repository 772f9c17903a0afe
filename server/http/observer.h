// SPDX-License-Identifier: MIT
// Port for metrics: hears of every reply.
#pragma once

#include <string_view>

#include "engine/base/clock.h"

namespace ballast::http {

/// Called on io threads; must not block.
class Observer {
  public:
    virtual ~Observer() = default;
    /// `endpoint` is the route's pattern, or "other" where none matched: never a client's text.
    virtual void on_reply(std::string_view endpoint, int status, Nanoseconds duration) = 0;
    /// Connections open now.
    virtual void on_connections(int n_open) = 0;
};

}  // namespace ballast::http
