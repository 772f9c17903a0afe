// SPDX-License-Identifier: MIT
// The seconds of a step as docs/scheduling.md defines them, by simulating the device, the CPU and
// the copy lane. Written from that page alone and without any of the planner's code, clear rather
// than fast: it is what the planner's own forecast is tested against.
#pragma once

#include <vector>

#include "scheduler/placement/placement.h"
#include "scheduler/profile/hardware_profile.h"
#include "scheduler/profile/tensor_catalog.h"

namespace ballast::test {

/// How often a routed expert is among those resident, of which the most used were chosen.
enum class Locality { kUniform, kWeak, kStrong };

struct ReferenceStep {
    int tokens = 1;  // 1: decode; more: prefill
    int depth = 0;   // tokens in the KV cache before the step
    bool blocking_hops = false;
    Locality locality = Locality::kUniform;
};

/// Preconditions (checked): one entry a group, no part twice, nothing streamed in decode on unified
/// memory, no experts resident or streamed in decode that the page does not allow.
double reference_step_seconds(const scheduler::TensorCatalog& catalog,
                              const scheduler::HardwareProfile& hardware,
                              const scheduler::Placement& placement,
                              const ReferenceStep& step);

/// The seconds of each of `steps` equal steps in a row, from an empty ring on.
std::vector<double> reference_steps_in_a_row(const scheduler::TensorCatalog& catalog,
                                             const scheduler::HardwareProfile& hardware,
                                             const scheduler::Placement& placement,
                                             const ReferenceStep& step,
                                             int steps);

/// When the residual is usable on either side.
struct Usable {
    double device = 0.0;
    double cpu = 0.0;
};

/// The seconds of one hop in this step.
double reference_hop_seconds(const scheduler::TensorCatalog& catalog,
                             const scheduler::HardwareProfile& hardware,
                             const ReferenceStep& step);

/// What one side has to do of a group in a step, with the probability that it is this.
struct Outcome {
    double probability = 1.0;
    bool on_device = false;
    bool on_cpu = false;
    double device_seconds = 0.0;    // of it all, the streamed part included
    double streamed_seconds = 0.0;  // of what is computed as it arrives
    double streamed_bytes = 0.0;
    double cpu_seconds = 0.0;
    double cpu_bytes = 0.0;
};

/// One outcome, but for experts in decode one a number of misses.
std::vector<Outcome> outcomes(const scheduler::HardwareProfile& hardware,
                              const ReferenceStep& step,
                              const scheduler::TensorGroup& group,
                              const scheduler::GroupPlacement& placed);

/// The state after a group of which nothing streams.
Usable after_group(const scheduler::HardwareProfile& hardware,
                   const ReferenceStep& step,
                   double hop_seconds,
                   const std::vector<Outcome>& group,
                   Usable before);

/// Tiles into which a group's streamed bytes are cut: the least number of equal ones.
int tiles_of(double streamed_bytes);

/// Device memory of one group, in bytes, without the ring: resident weights and the KV cache and
/// states of the parts that the device computes in decode (on one memory: in either phase).
double reference_group_bytes(const scheduler::TensorGroup& group,
                             const scheduler::GroupPlacement& placed,
                             const scheduler::KvReserve& reserve);
/// The most bytes of the group that the ring may have to hold at once.
double reference_ring_piece(const scheduler::TensorGroup& group,
                            const scheduler::GroupPlacement& placed,
                            const scheduler::KvReserve& reserve);
/// Device memory of a placement, in bytes.
double reference_device_bytes(const scheduler::TensorCatalog& catalog,
                              const scheduler::Placement& placement,
                              const scheduler::KvReserve& reserve);

}  // namespace ballast::test
