// SPDX-License-Identifier: MIT
// How unevenly experts are used, and how often the device had the one that was asked for. Private
// to this folder.
#pragma once

#include "engine/runtime/expert_use.h"
#include "server/metrics/families.h"

namespace ballast::metrics {

/// Brought up to date at each scrape. Models without experts have none of it. However many experts
/// there are, the series are as many.
class ExpertFamilies {
  public:
    explicit ExpertFamilies(prometheus::Registry& registry);
    void update(const runtime::ExpertReport& report);

  private:
    prometheus::Family<Gauge>& share_;
    prometheus::Family<Gauge>& hit_ratio_;
    prometheus::Family<Counter>& hits_;
    prometheus::Family<Counter>& misses_;
    prometheus::Family<Counter>& moves_;
    prometheus::Family<Counter>& moved_;
};

}  // namespace ballast::metrics
