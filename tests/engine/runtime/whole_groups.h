// SPDX-License-Identifier: MIT
// A placement that fills a second device: whole groups from the last layer on, until its memory is
// full, whether it pays or not.
#pragma once

#include <cstdint>

#include "engine/runtime/step_memory.h"
#include "scheduler/placement/placement.h"

namespace ballast::test {

/// What a placement has to fit into.
struct DeviceRoom {
    std::uint64_t budget_bytes = 0;     // for all that follows
    runtime::StepBytes step = {};       // needed by what is computed there, before any weight
    scheduler::KvReserve reserve = {};  // positions whose keys and values are reserved
};

/// The feed-forward and attention of the last layer, then of the one before it, as long as all fit;
/// then the head, if it fits too.
scheduler::Placement place_whole_groups(const scheduler::TensorCatalog& catalog,
                                        const DeviceRoom& room);

}  // namespace ballast::test
