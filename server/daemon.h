// SPDX-License-Identifier: MIT
// `ballast serve`: builds the parts, starts them in order, waits, and stops them in reverse.
//   listen (503) → load the model → start the engine → ready → signal → drain → stop
#pragma once

#include "config/environment.h"
#include "config/load.h"

namespace ballast::server {

/// Serves until SIGTERM or SIGINT and returns the process's exit code: 0 after an ordered stop,
/// else non-zero with one sentence on stderr. Once a process.
int serve(const config::Loaded& loaded, const config::Environment& environment);

}  // namespace ballast::server
