// SPDX-License-Identifier: MIT
// The process-wide gauges and the scrape.
#include "server/metrics/registry.h"

#include <mutex>
#include <utility>

#include <prometheus/text_serializer.h>

#include "server/metrics/families.h"

namespace ballast::metrics {

struct Registry::Gauges {
    Gauge* queue_depth = nullptr;
    std::mutex mutex;
    std::function<double()> queue_depth_source;
    std::function<void()> scheduler_source;
};

Registry::Registry(const Clock& clock)
    : families_(std::make_shared<prometheus::Registry>()), gauges_(std::make_unique<Gauges>()) {
    prometheus::BuildGauge()
        .Name("ballast_build_info")
        .Help("Always 1; the labels say what was built.")
        .Register(*families_)
        .Add({{"version", BALLAST_VERSION}, {"compiler", BALLAST_COMPILER}})
        .Set(1);
    add_gauge(*families_,
              "ballast_start_time_seconds",
              "Unix time at which the process started; a change is a restart.")
        .Set(static_cast<double>(clock.unix_seconds()));
    gauges_->queue_depth =
        &add_gauge(*families_, "ballast_queue_depth", "Jobs that wait for the engine.");
}

Registry::~Registry() = default;

void Registry::set_queue_depth_source(std::function<double()> source) {
    const std::lock_guard lock(gauges_->mutex);
    gauges_->queue_depth_source = std::move(source);
}

void Registry::set_scheduler_source(std::function<void()> update) {
    const std::lock_guard lock(gauges_->mutex);
    gauges_->scheduler_source = std::move(update);
}

std::string Registry::scrape() {
    {
        const std::lock_guard lock(gauges_->mutex);
        if (gauges_->scheduler_source) {
            gauges_->scheduler_source();
        }
        if (gauges_->queue_depth_source) {
            gauges_->queue_depth->Set(gauges_->queue_depth_source());
        }
    }
    return prometheus::TextSerializer().Serialize(families_->Collect());
}

}  // namespace ballast::metrics
