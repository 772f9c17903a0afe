// SPDX-License-Identifier: MIT
// Which monitor the options ask for. The one place that knows the names.
#pragma once

#include <functional>
#include <memory>

#include "engine/backend/host_backend.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/runtime/options.h"
#include "scheduler/load/sample_script.h"

namespace ballast::runtime {

/// The samples of the script that the options name, none for "none". A script that does not say
/// how much memory there is means the device of the options. kInvalidRequest naming the setting and
/// what is wrong.
Result<std::vector<scheduler::LoadSample>> read_monitor_script(const EngineOptions& options);

/// What the device "host" takes from a script for the truth, at the time at which it asks. The
/// clock and the script outlive it.
std::function<backend::HostTruth()> host_truth(const scheduler::SampleScript& script,
                                               const Clock& clock);

}  // namespace ballast::runtime
