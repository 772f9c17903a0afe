// SPDX-License-Identifier: MIT
// What the HTTP front end did: replies by endpoint and status, their duration, open connections.
#pragma once

#include <memory>

#include "server/http/observer.h"
#include "server/metrics/registry.h"

namespace ballast::metrics {

/// Any thread.
class HttpMetrics final : public http::Observer {
  public:
    explicit HttpMetrics(Registry& registry);
    ~HttpMetrics() override;
    void on_reply(std::string_view endpoint, int status, Nanoseconds duration) override;
    void on_connections(int n_open) override;

  private:
    struct Families;
    std::unique_ptr<Families> families_;
};

}  // namespace ballast::metrics
