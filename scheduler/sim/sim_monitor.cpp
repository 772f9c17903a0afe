// SPDX-License-Identifier: MIT
// Faults are drawn for each sample, so that a seed repeats them exactly.
#include "scheduler/sim/sim_monitor.h"

#include <algorithm>
#include <limits>

namespace ballast::scheduler {

SimMonitor::SimMonitor(std::vector<LoadSample> trace,
                       std::uint64_t total_bytes,
                       const Faults& faults)
    : trace_(std::move(trace)), faults_(faults), rng_(faults.seed) {
    for (LoadSample& sample : trace_) {
        if (sample.device_total_bytes == 0) {
            sample.device_total_bytes = total_bytes;
        }
    }
    if (trace_.empty() || trace_.front().time > Nanoseconds{0}) {
        trace_.insert(trace_.begin(), LoadSample{.device_total_bytes = total_bytes});
    }
}

double SimMonitor::noisy(double busy) {
    const double left = (1.0 - busy) * (1.0 + faults_.noise * (2.0 * rng_.uniform() - 1.0));
    return 1.0 - std::clamp(left, 0.0, 1.0);
}

void SimMonitor::distort(LoadSample& sample) {
    if (faults_.noise > 0.0) {
        sample.device_busy = noisy(sample.device_busy);
        sample.link_busy = noisy(sample.link_busy);
        sample.cpu_psi = noisy(sample.cpu_psi);
    }
    if (faults_.wrong > 0.0 && rng_.uniform() < faults_.wrong) {
        switch (rng_.below(4)) {
            case 0:
                sample.device_busy = std::numeric_limits<double>::quiet_NaN();
                break;
            case 1:
                sample.link_busy = 7.0;
                break;
            case 2:
                sample.others_bytes = 2 * sample.device_total_bytes;
                break;
            default:
                sample.others_bytes = 0;
                break;
        }
    }
}

std::optional<LoadSample> SimMonitor::sample(Nanoseconds now) {
    const bool honest = now >= faults_.until;
    Nanoseconds lag = honest ? Nanoseconds{0} : faults_.lag;
    if (!honest && faults_.jitter > Nanoseconds{0}) {
        lag += Nanoseconds(static_cast<std::int64_t>(rng_.uniform() *
                                                     static_cast<double>(faults_.jitter.count())));
    }
    const Nanoseconds seen = std::max(Nanoseconds{0}, now - lag);
    while (next_event_ < trace_.size() && trace_[next_event_].time <= seen) {
        const LoadSample& with_event = trace_[next_event_++];
        if (with_event.event != LoadEvent::kNone) {
            return with_event;
        }
    }
    const auto after = std::upper_bound(
        trace_.begin(), trace_.end(), seen, [](Nanoseconds time, const LoadSample& sample) {
            return time < sample.time;
        });
    LoadSample sample = *(after - 1);
    sample.time = seen;
    sample.event = LoadEvent::kNone;
    if (!honest) {
        distort(sample);
    }
    return sample;
}

}  // namespace ballast::scheduler
