// SPDX-License-Identifier: MIT
// A copy waits until it should end, or until the CPU begins or stops to read.
#include "engine/backend/paced_memory.h"

#include <sched.h>

#include <algorithm>
#include <cmath>

namespace ballast::backend {

void CopyProgress::settle(Nanoseconds now, double gbps) {
    // 1e9 bytes a second is one a nanosecond.
    left_ = std::max(0.0, left_ - static_cast<double>((now - since_).count()) * gbps);
    since_ = now;
}

std::optional<Nanoseconds> CopyProgress::end(double gbps) const {
    if (left_ <= 0.0) {
        return since_;
    }
    if (gbps <= 0.0) {
        return std::nullopt;
    }
    return since_ + Nanoseconds(static_cast<std::int64_t>(std::ceil(left_ / gbps)));
}

void PacedMemory::set_cpu_reads(double gbps) {
    {
        const std::lock_guard lock(mutex_);
        if (crossing_) {
            // Here and not by the copying thread, which is woken late.
            crossing_->progress.settle(clock_.now(), rate(crossing_->link_gbps));
        }
        cpu_gbps_ = gbps;
        ++n_changes_;
        if (!crossing_) {
            return;  // nobody waits
        }
    }
    changed_.notify_all();
}

double PacedMemory::rate(double link_gbps) const {
    if (dram_gbps_ <= 0.0 || cpu_gbps_ <= 0.0) {
        return link_gbps;
    }
    return std::clamp(dram_gbps_ - cpu_gbps_, 0.0, link_gbps);
}

Nanoseconds PacedMemory::cross(std::uint64_t bytes, double link_gbps, Nanoseconds begin) {
    if (link_gbps <= 0.0) {
        return begin;
    }
    Nanoseconds crossed = begin;
    std::unique_lock lock(mutex_);
    crossing_ = {.progress = CopyProgress(bytes, begin), .link_gbps = link_gbps};
    while (!interrupted_) {
        const auto end = crossing_->progress.end(rate(link_gbps));
        const std::uint64_t change = n_changes_;
        const auto changed = [&] { return interrupted_ || n_changes_ != change; };
        if (!end) {
            changed_.wait(lock, changed);
        } else if (*end <= clock_.now()) {
            crossed = *end;
            break;
        } else {
            wait_until(clock_, lock, changed_, *end, changed);
        }
    }
    crossing_.reset();
    return crossed;
}

void PacedMemory::interrupt() {
    {
        const std::lock_guard lock(mutex_);
        interrupted_ = true;
    }
    changed_.notify_all();
}

void watch_until(const Clock& clock, Nanoseconds time) {
    while (clock.now() < time) {
        sched_yield();
    }
}

}  // namespace ballast::backend
