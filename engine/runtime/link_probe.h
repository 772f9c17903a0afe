// SPDX-License-Identifier: MIT
// What a second device's link does, measured through the Backend interface alone.
#pragma once

#include "engine/backend/backend.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/base/thread_pool.h"
#include "engine/runtime/probes.h"

namespace ballast::runtime {

/// Medians. The interface has no pinned host memory, so that copies go out of ordinary pages.
struct LinkRates {
    double copy_in_gbps = 0.0;   // copies alone
    double together_gbps = 0.0;  // copies and reads by the CPU at the same time, added
    double hop_us = 0.0;         // half of the way there and back through a small op
};

/// Takes a fraction of a second. All of the memory has been taken. Errors: those of the backend,
/// whose memory is given back.
Result<LinkRates> measure_link(backend::Backend& device,
                               ProbeMemory& memory,
                               ThreadPool& pool,
                               const Clock& clock);

}  // namespace ballast::runtime
