// SPDX-License-Identifier: MIT
// How much of the device may be used, and why, as the API tells it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/runtime/load_report.h"

namespace ballast::api {

/// {"level": "polite", "reason": …, "device_bytes": …, …}; reason and degraded may be null, and the
/// bytes are there only if there is a device.
nlohmann::ordered_json load_json(const runtime::LoadReport& report);

}  // namespace ballast::api
