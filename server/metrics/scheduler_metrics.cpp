// SPDX-License-Identifier: MIT
// Copies a snapshot of the scheduler into gauges and counters.
#include "server/metrics/scheduler_metrics.h"

#include <map>
#include <mutex>
#include <utility>

#include "server/metrics/expert_families.h"
#include "server/metrics/families.h"
#include "server/metrics/load_families.h"

namespace ballast::metrics {

namespace {

/// A gauge that appears with its first value.
struct LateGauge {
    prometheus::Family<Gauge>* family = nullptr;
    Gauge* gauge = nullptr;

    void set(double value) {
        if (gauge == nullptr) {
            gauge = &family->Add({});
        }
        gauge->Set(value);
    }
};

prometheus::Family<Gauge>& gauges(prometheus::Registry& registry,
                                  const std::string& name,
                                  const std::string& help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

}  // namespace

struct SchedulerMetrics::Families {
    explicit Families(prometheus::Registry& registry)
        : load(registry),
          experts(registry),
          placement(gauges(
              registry, "ballast_placement_bytes", "Bytes by where they are and what they are.")),
          version{&gauges(registry, "ballast_plan_version", "Number of the plan in force.")},
          predicted{&gauges(registry,
                            "ballast_plan_predicted_seconds",
                            "A token of decode at half the context, as the plan forecasts it.")},
          limit{&gauges(registry,
                        "ballast_limit_fraction",
                        "Least time the hardware allows over measured time, recent decode steps of "
                        "one sequence.")},
          plan{&gauges(registry,
                       "ballast_plan_fraction",
                       "Forecast over measured time, recent decode steps of one sequence.")},
          gap{&gauges(registry,
                      "ballast_plan_gap_ratio",
                      "How much slower than the best division the plan can be at most.")},
          replans(prometheus::BuildCounter()
                      .Name("ballast_replans_total")
                      .Help("Plans made, by cause.")
                      .Register(registry)),
          seconds(prometheus::BuildCounter()
                      .Name("ballast_scheduler_seconds_total")
                      .Help("Time the scheduler took.")
                      .Register(registry)
                      .Add({})) {}

    void update() {
        const std::lock_guard lock(mutex);
        if (!sources.state) {
            return;
        }
        const runtime::LoadReport report = sources.load();
        load.update(report);
        experts.update(report.experts);
        // What has left a device is 0 there from now on.
        for (auto& [labels, gauge] : places) {
            gauge->Set(0.0);
        }
        for (const runtime::PlacedBytes& bytes : sources.placed()) {
            Gauge*& gauge = places[{bytes.device, bytes.tensor_class}];
            if (gauge == nullptr) {
                gauge = &placement.Add({{"device", bytes.device}, {"class", bytes.tensor_class}});
            }
            gauge->Set(static_cast<double>(bytes.bytes));
        }
        const scheduler::SchedulerState state = sources.state();
        version.set(static_cast<double>(state.plan->version));
        if (state.has_hardware) {
            predicted.set(state.plan->forecast.decode_seconds);
            gap.set(state.plan->forecast.gap);
        }
        if (state.limit_fraction > 0.0) {
            limit.set(state.limit_fraction);
            plan.set(state.plan_fraction);
        }
        for (const auto& [cause, count] : state.replans) {
            Counter& counter = replans.Add({{"cause", cause}});
            raise(counter, static_cast<double>(count));
        }
        raise(seconds, state.scheduler_seconds);
    }

    LoadFamilies load;
    ExpertFamilies experts;
    prometheus::Family<Gauge>& placement;
    LateGauge version;
    LateGauge predicted;
    LateGauge limit;
    LateGauge plan;
    LateGauge gap;
    prometheus::Family<Counter>& replans;
    Counter& seconds;
    std::mutex mutex;  // guards what follows, and the source while it is asked
    Sources sources;
    std::map<std::pair<std::string, std::string>, Gauge*> places;  // by device and class
};

SchedulerMetrics::SchedulerMetrics(Registry& registry)
    : families_(std::make_unique<Families>(registry.families())) {
    registry.set_scheduler_source([this] { families_->update(); });
}

SchedulerMetrics::~SchedulerMetrics() = default;

void SchedulerMetrics::start(Sources sources) {
    const std::lock_guard lock(families_->mutex);
    families_->sources = std::move(sources);
}

void SchedulerMetrics::stop() {
    families_->update();
    const std::lock_guard lock(families_->mutex);
    families_->sources = {};
}

}  // namespace ballast::metrics
