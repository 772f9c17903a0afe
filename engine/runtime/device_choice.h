// SPDX-License-Identifier: MIT
// Which second device the options ask for. The one place that knows the names.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backend/host_backend.h"
#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "engine/kernels/cpu/kernel_table.h"
#include "engine/runtime/options.h"

namespace ballast::runtime {

/// Whether they want one. kInvalidRequest naming what is possible.
Result<bool> wants_device(const EngineOptions& options);

/// Bytes of its memory that may be used.
std::uint64_t device_budget(const EngineOptions& options);

/// The device that is wanted, which wants_device() has allowed. `host`: pace and faults of the one
/// made of threads; its threads and memory follow from the rest. Kernels and clock outlive it.
std::unique_ptr<backend::Backend> make_device(const EngineOptions& options,
                                              const kernels::KernelTable& kernels,
                                              const Clock& clock,
                                              int threads,
                                              backend::HostOptions host = {});

}  // namespace ballast::runtime
