// SPDX-License-Identifier: MIT
// What kind of device the host backend pretends to be: its size, its pace, and its failures.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/backend/paced_memory.h"
#include "engine/base/clock.h"
#include "engine/base/units.h"
#include "engine/quant/type_traits.h"

namespace ballast::backend {

/// How fast the device pretends to be: nothing ends earlier than its modelled time. A thread of it
/// that is woken late does not make the device slower: what it does next began when it could. A
/// rate of 0 paces nothing.
struct HostPace {
    double read_gbps = 0.0;  // 1e9 bytes a second of weights, keys and values that ops read
    double gflops = 0.0;     // 1e9 operations a second
    double link_gbps = 0.0;  // 1e9 bytes a second of a copy, either way
    Nanoseconds latency{0};  // from the call until a submission or a copy may begin

    bool is_set() const {
        return read_gbps > 0.0 || gflops > 0.0 || link_gbps > 0.0 || latency.count() > 0;
    }
};

/// Failures on purpose; calls are counted from 1, 0 is never.
struct FaultPlan {
    std::uint64_t failed_allocation = 0;   // this allocate_chunk() gives kOutOfMemory
    std::uint64_t failed_host = 0;         // this allocate_host() gives kOutOfMemory
    std::uint64_t failed_submission = 0;   // this submit() gives kOutOfMemory and runs nothing
    std::uint64_t lost_at_submission = 0;  // from this submission on all is kDeviceLost
    std::uint64_t seed = 1;                // of the delays
    Nanoseconds delay_max{0};              // everything starts late by a random time up to this
};

/// What befalls the device from outside, as of now.
struct HostTruth {
    std::uint64_t left_bytes = 0;  // of its memory, beside what others use
    std::uint64_t n_losses = 0;    // how often it was lost; one that is made anew works
};

struct HostOptions {
    int threads = 1;
    std::uint64_t memory_bytes = 256 * kMiB;  // chunks in use together; kernels' scratch is beside
    HostPace pace = {};
    FaultPlan faults = {};
    /// A queue that has nothing to do, and whoever waits for an event, looks for so long before it
    /// sleeps: to be woken takes some 50 us, which is more than most gaps of a step.
    Nanoseconds poll = std::chrono::microseconds(50);
    /// What its copies share with a paced CPU; null: they have the memory to themselves.
    std::shared_ptr<PacedMemory> shared_memory = nullptr;
    std::vector<quant::QuantType> refused_types = {};  // it says it has no kernels for these
    /// Asked at each allocation, so that what others have taken is refused at once, and at each
    /// copy and submission. Null: nobody else is there.
    std::function<HostTruth()> truth = nullptr;
};

}  // namespace ballast::backend
