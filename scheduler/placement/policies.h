// SPDX-License-Identifier: MIT
// How other programs place a model, as placements: what a plan is compared with, and candidates it
// may fall back on.
#pragma once

#include <vector>

#include "scheduler/placement/placement.h"

namespace ballast::scheduler {

enum class Policy {
    kCpuOnly,
    kWholeLayers,     // llama.cpp's -ngl: the last layers, then the head, as many as fit
    kExpertsLast,     // llama.cpp's --n-cpu-moe: everything but experts first, then whole layers'
    kStatic,          // whole groups in the best of several orders
    kStaticStreaming  // ATSInfer's (arXiv 2607.10183): the same, and whole groups stream
};

/// "CPU only", "whole layers (-ngl)", …
const char* policy_name(Policy policy);

/// The placements the policy may choose among; all of them fit into `memory_limit` bytes. None if
/// the policy has nothing to say about this model (experts-last for a dense one).
std::vector<Placement> policy_placements(Policy policy,
                                         const TensorCatalog& catalog,
                                         double memory_limit,
                                         const KvReserve& reserve,
                                         bool unified_memory);

}  // namespace ballast::scheduler
