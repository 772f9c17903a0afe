// SPDX-License-Identifier: MIT
// Requests to the generating endpoints by how they ended.
#pragma once

#include <array>

#include "server/metrics/registry.h"

namespace prometheus {
class Counter;
}

namespace ballast::metrics {

enum class Endpoint { kChatCompletions, kCompletions };
enum class Outcome { kStop, kLength, kCancelled, kError, kInvalid, kRejected };

/// Any thread.
class RequestMetrics {
  public:
    explicit RequestMetrics(Registry& registry);
    void count(Endpoint endpoint, Outcome outcome);

  private:
    std::array<std::array<prometheus::Counter*, 6>, 2> requests_{};
};

}  // namespace ballast::metrics
