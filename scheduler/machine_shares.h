// SPDX-License-Identifier: MIT
// The machine that others leave, as a profile.
#pragma once

#include "scheduler/profile/hardware_profile.h"

namespace ballast::scheduler {

/// What is left of each, from 0 to 1, and whether weights are copied to the device beside the work.
struct MachineShares {
    double device = 1.0;
    double link = 1.0;
    double cpu = 1.0;
    bool uploading = false;
};

/// In steps of 0.01, and never nothing: what plans and models are made for.
MachineShares rounded(MachineShares shares);

/// The share of its pace that the CPU keeps beside an upload.
double cpu_pace_beside_upload(const HardwareProfile& hardware, const MachineShares& shares);

/// Slower by what is missing; whether something is uploaded counts for the CPU alone.
HardwareProfile scaled(HardwareProfile hardware, const MachineShares& shares);

}  // namespace ballast::scheduler
