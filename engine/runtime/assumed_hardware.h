// SPDX-License-Identifier: MIT
// Figures for planning where nothing can be measured: a device made of threads.
#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/profile/hardware_profile.h"

namespace ballast::runtime {

/// The device "host" shares the CPU's cores, so that no plan would ever use it. It stands in for a
/// GPU, and is planned like one of four times the CPU's rates behind a link of a quarter of them.
/// `cpu`: this machine's measured figures; without them modest ones are assumed.
scheduler::HardwareProfile host_device_hardware(
    const std::optional<scheduler::HardwareProfile>& cpu, std::uint64_t memory_bytes);

}  // namespace ballast::runtime
