// SPDX-License-Identifier: MIT
// What handlers may use; there are no globals.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "engine/base/clock.h"
#include "scheduler/load/pauses.h"
#include "server/api/model_state.h"
#include "server/api/options.h"
#include "server/metrics/registry.h"
#include "server/metrics/request_metrics.h"
#include "server/queue/admission.h"

namespace ballast::api {

/// Names for replies, and seeds for requests that give none. Unique within the process; not
/// secrets. Any thread.
class IdSource {
  public:
    explicit IdSource(std::uint64_t seed) : seed_(seed) {}
    std::uint64_t next_number();
    /// 24 characters of letters and digits.
    std::string next_text();

  private:
    const std::uint64_t seed_;
    std::atomic<std::uint64_t> counter_{0};
};

/// References that outlive the HTTP server.
struct Services {
    const ApiOptions& options;
    bool sse_comments;
    const ModelState& model;
    queue::Admission& admission;
    metrics::Registry& registry;
    metrics::RequestMetrics& request_metrics;
    scheduler::Pauses& pauses;
    const Clock& clock;
    IdSource& ids;
};

}  // namespace ballast::api
