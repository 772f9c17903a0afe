// SPDX-License-Identifier: MIT
// Hardware profiles as JSON: the shipped ones, which are compiled in, and a user's own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "scheduler/profile/hardware_profile.h"

namespace ballast::scheduler {

/// Reads one profile (README.md has the format). Errors: kInvalidRequest with one sentence that
/// begins with `origin` and names the key: not JSON, an unknown, absent or ill-typed key, a number
/// out of range, a link on unified memory or none without it, a device's figure without a device.
Result<HardwareProfile> parse_hardware(std::string_view text, const std::string& origin);
/// The JSON text that parse_hardware() reads back to the same profile, with a line break at its
/// end. Texts that are not UTF-8 get replacement characters.
std::string write_hardware(const HardwareProfile& hardware);

/// The names of the shipped profiles, sorted.
std::vector<std::string> stored_hardware_names();
/// A shipped profile. kNotFound naming the nearest ones.
Result<HardwareProfile> stored_hardware(const std::string& name);

}  // namespace ballast::scheduler
