// SPDX-License-Identifier: MIT
// The wait until the modelled time is over.
#include "engine/backend/paced_cpu.h"

#include "engine/backend/op_work.h"

namespace ballast::backend {

Result<Event> PacedCpu::submit(std::span<const OpRecord> ops, const StepContext& context) {
    const Nanoseconds begin = clock_.now();
    const ModelledWork work = modelled_work(ops, context, pace_.read_gbps, pace_.gflops);
    if (work.time.count() > 0) {
        memory_->set_cpu_reads(static_cast<double>(work.bytes) /
                               static_cast<double>(work.time.count()));
    }
    auto event = inner_.submit(ops, context);
    // Nobody wakes it: it is there to wait.
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    wait_until(clock_, lock, never, begin + work.time, [] { return false; });
    memory_->set_cpu_reads(0.0);
    return event;
}

}  // namespace ballast::backend
