// SPDX-License-Identifier: MIT
// How much of the device is used by whom, and what was given back. Private to this folder.
#pragma once

#include <array>

#include "engine/runtime/load_report.h"
#include "server/metrics/families.h"

namespace ballast::metrics {

/// Brought up to date at each scrape. Without a device only the level has a value.
class LoadFamilies {
  public:
    explicit LoadFamilies(prometheus::Registry& registry);
    void update(const runtime::LoadReport& report);

  private:
    void update(const runtime::TransferStats& transfers);

    prometheus::Family<Gauge>& memory_;
    prometheus::Family<Gauge>& contention_;
    prometheus::Family<Gauge>& level_;
    prometheus::Family<Gauge>& degraded_;
    prometheus::Family<Counter>& evicted_;
    prometheus::Family<Counter>& moves_;
    prometheus::Family<Counter>& crossed_;
    prometheus::Family<Counter>& stalled_;
    prometheus::Family<Gauge>& overlap_;
};

}  // namespace ballast::metrics
