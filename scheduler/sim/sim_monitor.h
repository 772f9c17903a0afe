// SPDX-License-Identifier: MIT
// A monitor that tells of a trace what a bad driver would: noisy, late, and sometimes wrong.
#pragma once

#include <vector>

#include "engine/base/rng.h"
#include "scheduler/load/monitor.h"

namespace ballast::scheduler {

class SimMonitor final : public GpuMonitor {
  public:
    struct Faults {
        /// What is left of device, link and CPU is off by at most this share, evenly.
        double noise = 0.0;
        /// A sample says what was true so long ago, …
        Nanoseconds lag{0};
        /// … or longer by up to this; so that some come in the wrong order.
        Nanoseconds jitter{0};
        /// Of all samples, so many say what cannot be, or that others use no memory.
        double wrong = 0.0;
        std::uint64_t seed = 1;
        /// From then on it tells the truth.
        Nanoseconds until = Nanoseconds::max();
    };

    /// `total_bytes` for samples that do not know it.
    SimMonitor(std::vector<LoadSample> trace, std::uint64_t total_bytes, const Faults& faults);

    std::optional<LoadSample> sample(Nanoseconds now) override;

  private:
    void distort(LoadSample& sample);
    double noisy(double busy);

    std::vector<LoadSample> trace_;
    Faults faults_;
    Rng rng_;
    std::size_t next_event_ = 0;  // those before have been looked at for events
};

}  // namespace ballast::scheduler
