// SPDX-License-Identifier: MIT
// What crosses the link in a prefill step, once it is known what is resident.
#pragma once

#include "scheduler/placement/option_table.h"
#include "scheduler/placement/step_model.h"

namespace ballast::scheduler {

struct PrefillChoice {
    Placement placement = {};  // the given one with prefill_streamed filled in
    double seconds = 0.0;
};

/// Shares of what is not resident that cross the link, one a kind of group, found one kind after
/// the other by an estimate without the ring, then replayed. No piece is larger than what
/// `ring_room` bytes of device memory allow its ring to hold.
PrefillChoice choose_prefill_streams(const StepModel& prefill,
                                     Placement placement,
                                     const KvReserve& reserve,
                                     const Ladder& ladder,
                                     double memory_limit);

}  // namespace ballast::scheduler
