// SPDX-License-Identifier: MIT
// The physical bound of a step: no plan, however clever, can be faster.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/profile/cost_model.h"
#include "scheduler/profile/hardware_profile.h"
#include "scheduler/profile/tensor_catalog.h"

namespace ballast::scheduler {

/// Work of one kind: weights and KV that are read, each byte once, and the arithmetic on them.
struct DemandPart {
    double read_gb = 0.0;
    double tflop = 0.0;
    double device_efficiency = 1.0;  // share of its arithmetic that the device reaches here
};

/// What one step has to do, whoever does it.
struct StepDemand {
    std::vector<DemandPart> parts = {};
    /// X: how many of the bytes read may be read from the device's own memory. For routed experts
    /// the share of reads that hit, at least the share that is resident.
    double resident_gb = 0.0;
};

/// T_LB in seconds: the least T for which each part k can be divided into x_k (read from device
/// memory), s_k (streamed over the link, computed on the device) and c_k (the CPU's),
/// x_k + s_k + c_k = 1, with bytes b_k and arithmetic a_k, such that
///
/// - the device reads: Σ (x_k + s_k) · b_k ≤ Bg · T, and computes: Σ (x_k + s_k) · a_k ≤ Fg · T,
/// - the CPU reads: Σ c_k · b_k ≤ Bc · T, and computes: Σ c_k · a_k ≤ Fc · T,
/// - the link carries Σ s_k · b_k ≤ Bp · T, and DRAM Σ (s_k + c_k) · b_k ≤ Bd · T,
/// - device memory holds Σ x_k · b_k ≤ X.
///
/// On unified memory nothing is streamed and DRAM serves x_k + c_k. Without a device there is c_k
/// alone. Launches, hops and attention's latency are left out, so that it is a bound and not a
/// forecast. A linear program, solved exactly (linear_program.h).
///
/// Preconditions: rates above 0 (the link's may be 0), demands not negative.
double lower_bound_seconds(const HardwareProfile& hardware, const StepDemand& demand);

/// The demand of one step of a model. The device's memory, in bytes, holds a share f of the
/// experts, which meets max(f, h(f)) of the requests in decode and f of them in prefill, and of
/// what is read whatever is routed as much as has room beside it; f is what makes most reads meet
/// it. (Where few experts are asked for again and again, some of them may be worth more than what
/// is always read.)
StepDemand step_demand(const TensorCatalog& catalog,
                       const StepShape& step,
                       Locality locality,
                       double expert_prefill_factor,
                       double device_memory_bytes);

/// T_LB of that demand on this machine, in seconds.
double step_bound_seconds(const HardwareProfile& hardware,
                          const TensorCatalog& catalog,
                          const StepShape& step,
                          Locality locality,
                          double device_memory_bytes);

}  // namespace ballast::scheduler
