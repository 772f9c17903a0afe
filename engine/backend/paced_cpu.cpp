// SPDX-License-Identifier: MIT
// Modelled times, and the wait until they are over.
#include "engine/backend/paced_cpu.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>

#include "engine/backend/op_work.h"

namespace ballast::backend {

namespace {

/// What `amount` takes at `rate_giga` · 1e9 a second, rounded up; rates of 0 take no time.
Nanoseconds time_at(std::uint64_t amount, double rate_giga) {
    if (rate_giga <= 0.0) {
        return Nanoseconds(0);
    }
    // 1e9 a second is one a nanosecond.
    return Nanoseconds(
        static_cast<std::int64_t>(std::ceil(static_cast<double>(amount) / rate_giga)));
}

}  // namespace

Nanoseconds modelled_time(std::span<const OpRecord> ops,
                          const StepContext& context,
                          double read_gbps,
                          double gflops) {
    Nanoseconds time{0};
    for (const OpRecord& record : ops) {
        const OpWork amount = op_work(record, context);
        time += std::max(time_at(amount.bytes, read_gbps), time_at(amount.flops, gflops));
    }
    return time;
}

Result<Event> PacedCpu::submit(std::span<const OpRecord> ops, const StepContext& context) {
    const Nanoseconds begin = clock_.now();
    const Nanoseconds time = modelled_time(ops, context, pace_.read_gbps, pace_.gflops);
    if (time.count() > 0) {
        std::uint64_t bytes = 0;
        for (const OpRecord& record : ops) {
            bytes += op_work(record, context).bytes;
        }
        memory_->set_cpu_reads(static_cast<double>(bytes) / static_cast<double>(time.count()));
    }
    auto event = inner_.submit(ops, context);
    if (const Nanoseconds left = begin + time - clock_.now(); left > kWatchedWait) {
        // Nobody wakes it: it is there to wait.
        std::mutex mutex;
        std::condition_variable never;
        std::unique_lock lock(mutex);
        never.wait_for(lock, left - kWatchedWait, [] { return false; });
    }
    watch_until(clock_, begin + time);
    memory_->set_cpu_reads(0.0);
    return event;
}

}  // namespace ballast::backend
