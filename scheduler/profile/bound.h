// SPDX-License-Identifier: MIT
// The physical bound of a step: no plan, however clever, can be faster.
#pragma once

#include "scheduler/profile/hardware_profile.h"

namespace ballast::scheduler {

/// What one step has to do, whoever does it.
struct StepDemand {
    double read_gb = 0.0;  // W: weights and KV that are read, each once
    /// X: how much of W may be read from the device's own memory; at most the memory's size. For
    /// routed experts the share of reads that hit, at least the share that is resident.
    double resident_gb = 0.0;
    double tflop = 0.0;  // arithmetic on what is read; 0: reading decides
};

/// T_LB in seconds: the least T for which x bytes read from device memory, s streamed over the link
/// and c read by the CPU exist with x + s + c = W, 0 ≤ x ≤ X, x + s ≤ Bg·T, c ≤ Bc·T, s ≤ Bp·T and
/// s + c ≤ Bd·T, where Bg and Bc are lowered to what the arithmetic on a byte allows. Launches,
/// hops and attention's latency are left out, so that it is a bound and not a forecast.
///
/// The most that fits into T is min(X, Bg·T) + min(Bd, Bc + Bp)·T, and (Bg + Bc)·T at most; all of
/// it grows with T, so that T_LB is the largest of the three times at which these lines reach W.
/// On unified memory every byte comes from the one DRAM: W / min(Bd, Bg + Bc), X without effect.
/// Without a device the CPU reads everything: W / min(Bd, Bc).
///
/// Preconditions: rates above 0 (the link's may be 0), demands not negative.
double lower_bound_seconds(const HardwareProfile& hardware, const StepDemand& demand);

}  // namespace ballast::scheduler
