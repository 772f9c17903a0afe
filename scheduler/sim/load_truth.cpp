// SPDX-License-Identifier: MIT
// One truth for each sample, and one for each end of a reset.
#include "scheduler/sim/load_truth.h"

#include <algorithm>
#include <optional>

namespace ballast::scheduler {

namespace {

constexpr double kHeadroomShare = 0.08;
constexpr std::uint64_t kHeadroomLeast = 512ULL << 20U;
// Nothing is ever so busy that a step would not end.
constexpr double kShareLeast = 0.02;

double left(double busy) {
    return std::clamp(1.0 - busy, kShareLeast, 1.0);
}

std::uint64_t at_least(double bytes) {
    return std::max(kHeadroomLeast, static_cast<std::uint64_t>(bytes));
}

}  // namespace

DeviceMemory device_memory(std::span<const LoadSample> trace,
                           double cap_bytes,
                           double profile_bytes) {
    DeviceMemory memory{.cap_bytes = static_cast<std::uint64_t>(cap_bytes)};
    for (const LoadSample& sample : trace) {
        memory.total_bytes = std::max(memory.total_bytes, sample.device_total_bytes);
    }
    if (memory.total_bytes > 0) {
        memory.headroom_bytes = at_least(kHeadroomShare * static_cast<double>(memory.total_bytes));
    } else {
        const double net = std::max(profile_bytes, cap_bytes);
        memory.headroom_bytes = at_least(net * kHeadroomShare / (1.0 - kHeadroomShare));
        memory.total_bytes = static_cast<std::uint64_t>(net) + memory.headroom_bytes;
    }
    return memory;
}

std::vector<LoadTruth> load_truths(std::span<const LoadSample> trace, const DeviceMemory& memory) {
    std::vector<LoadTruth> truths = {{.room_bytes = memory.room(0)}};
    std::optional<Nanoseconds> works_at;
    const auto end_reset = [&](Nanoseconds before) {
        if (works_at && *works_at <= before) {
            LoadTruth back = truths.back();
            back.time = *works_at;
            back.device_works = true;
            truths.push_back(back);
            works_at.reset();
        }
    };
    for (const LoadSample& sample : trace) {
        end_reset(sample.time);
        LoadTruth next = truths.back();
        next.time = sample.time;
        next.room_bytes = memory.room(sample.others_bytes);
        next.conditions = {.device = left(sample.device_busy),
                           .link = left(sample.link_busy),
                           .cpu = left(sample.cpu_psi)};
        if (sample.event == LoadEvent::kSuspend || sample.event == LoadEvent::kDeviceLost) {
            ++next.n_wipes;
            next.suspended = next.suspended || sample.event == LoadEvent::kSuspend;
        }
        if (sample.event == LoadEvent::kDeviceLost) {
            next.device_works = false;
            works_at = sample.time + kResetTime;
        }
        if (sample.event == LoadEvent::kResume) {
            next.suspended = false;
        }
        if (next.time == truths.back().time) {
            truths.back() = next;
        } else {
            truths.push_back(next);
        }
    }
    end_reset(Nanoseconds::max());
    return truths;
}

}  // namespace ballast::scheduler
