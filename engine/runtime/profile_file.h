// SPDX-License-Identifier: MIT
// Where a measured profile is kept between runs, and how it is known that it is still about this
// hardware. Nothing here stops a start: what cannot be read is measured again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/kernels/cpu/kernel_table.h"
#include "scheduler/profile/hardware_profile.h"

namespace ballast::runtime {

/// What a profile depends on. A change of any of it makes the profile another machine's.
struct HardwareFacts {
    std::string cpu = {};
    int cores = 0;
    Isa isa = Isa::kScalar;  // the best that the processor has
    std::uint64_t ram_bytes = 0;
    std::string kernels = {};  // the table in use
    int threads = 0;
    std::vector<std::string> devices = {};
};

HardwareFacts detect_hardware(const kernels::KernelTable& kernels, int threads);

/// The facts and the version of the measurements as one line: "format 1; cpu …; cores 2; …".
std::string hardware_key(const HardwareFacts& facts);
/// What differs between two keys, in words: "threads 2, was 1".
std::string key_difference(const std::string& stored, const std::string& current);

/// The file in the folder for this key.
std::string profile_path(const std::string& folder, const std::string& key);

/// A profile, or why it has to be measured (again).
struct StoredProfile {
    std::optional<scheduler::HardwareProfile> profile = {};
    std::string reason = {};  // "" if there is a profile
};
/// Reads the profile of the hardware with this key. If there is only one of other hardware, the
/// reason says what has changed.
StoredProfile load_profile(const std::string& folder, const std::string& key);

/// Writes it under its key, whole or not at all, and makes the folder. Errors: kIo naming the path.
Status store_profile(const std::string& folder, const scheduler::HardwareProfile& profile);

/// Name, description, key and day of a profile that is about to be measured.
scheduler::HardwareProfile empty_profile(const HardwareFacts& facts, std::int64_t unix_seconds);
/// "2026-01-31".
std::string utc_date(std::int64_t unix_seconds);

}  // namespace ballast::runtime
