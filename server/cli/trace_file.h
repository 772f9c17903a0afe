// SPDX-License-Identifier: MIT
// Traces of lanes as files: of the engine's lanes, and the writing of either kind.
#pragma once

#include <span>
#include <string>

#include "engine/base/result.h"
#include "engine/runtime/lane_log.h"
#include "scheduler/profile/tensor_catalog.h"

namespace ballast::cli {

/// Writes what trace_json() made. kIo.
Status write_trace(const std::string& path, const std::string& json);

/// What the CPU, the device and its copies did: trace_json() of the engine's own lanes, from the
/// first span's begin on.
std::string engine_trace(const scheduler::TensorCatalog& catalog,
                         std::span<const runtime::LaneSpan> spans,
                         const std::string& title);

}  // namespace ballast::cli
