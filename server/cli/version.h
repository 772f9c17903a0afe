// SPDX-License-Identifier: MIT
// The program's version.
#pragma once

namespace ballast::cli {

/// "0.1.0", from the build.
const char* version();

}  // namespace ballast::cli
