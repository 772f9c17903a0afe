// SPDX-License-Identifier: MIT
// All metrics of the process and their text form. Counters and histograms are updated in place; a
// scrape reads them and never waits for inference.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/clock.h"

namespace prometheus {
class Registry;
}

namespace ballast::metrics {

/// Owns the families. Any thread.
class Registry {
  public:
    explicit Registry(const Clock& clock);
    ~Registry();
    Registry(const Registry&) = delete;
    Registry& operator=(const Registry&) = delete;

    /// The exposition text, format 0.0.4.
    std::string scrape();
    /// Asked at each scrape for the jobs that wait; must be quick. Set before the server starts.
    void set_queue_depth_source(std::function<double()> source);
    /// Called at each scrape to bring the scheduler's families up to date. Set as above.
    void set_scheduler_source(std::function<void()> update);

    prometheus::Registry& families() { return *families_; }

  private:
    std::shared_ptr<prometheus::Registry> families_;
    struct Gauges;
    std::unique_ptr<Gauges> gauges_;
};

/// Content type of scrape().
inline constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace ballast::metrics
