// SPDX-License-Identifier: MIT
// Where the weights are, what the plan promises and what it reaches. Read at each scrape.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/runtime/load_report.h"
#include "scheduler/tensor_scheduler.h"
#include "server/metrics/registry.h"

namespace ballast::metrics {

/// Families appear when there is something to say: none before a model is there, and no share of a
/// limit before it was measured.
class SchedulerMetrics {
  public:
    explicit SchedulerMetrics(Registry& registry);
    ~SchedulerMetrics();

    /// What is asked at each scrape, from its thread, and must be quick.
    struct Sources {
        std::function<std::vector<runtime::PlacedBytes>()> placed;
        std::function<scheduler::SchedulerState()> state;
        std::function<runtime::LoadReport()> load;
    };
    /// A model is there.
    void start(Sources sources);
    /// The model goes: nothing is asked any more once this has returned. The last values stay.
    void stop();

  private:
    struct Families;
    std::unique_ptr<Families> families_;
};

}  // namespace ballast::metrics
