// SPDX-License-Identifier: MIT
// What is known of the device's share at one moment, for metrics and people.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/runtime/expert_use.h"
#include "engine/runtime/load_watch.h"
#include "engine/runtime/residency.h"
#include "engine/runtime/transfer_stats.h"

namespace ballast::runtime {

/// A snapshot.
struct LoadReport {
    scheduler::LoadLevel level = scheduler::LoadLevel::kFull;
    std::string reason = {};  // a sentence; "" at full
    bool has_device = false;  // the options name one; without it the bytes are 0
    /// Ours by the device's own view, and by what our parts say that they hold.
    std::uint64_t self_bytes = 0;
    std::uint64_t booked_bytes = 0;
    std::uint64_t others_bytes = 0;
    std::uint64_t total_bytes = 0;
    std::uint64_t n_refused = 0;  // allocations that the device refused since it was made
    double contention = 0.0;      // share of the device's time that others take
    /// Why the device does less than it should, if it does: one of the last three causes.
    std::optional<LoadCause> degraded = {};
    std::string degraded_text = {};
    std::array<std::uint64_t, kLoadCauses> evicted_bytes = {};  // by cause, since the start
    std::uint64_t n_moves = 0;     // of parts of the share, to the device or from it
    TransferStats transfers = {};  // as of the last step
    std::shared_ptr<const Residency> residency = nullptr;  // never null once it is published
    ExpertReport experts = {};  // at most a second old while steps are run

    std::uint64_t free_bytes() const {
        const std::uint64_t taken = self_bytes + others_bytes;
        return total_bytes > taken ? total_bytes - taken : 0;
    }
};

}  // namespace ballast::runtime
