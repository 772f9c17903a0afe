// SPDX-License-Identifier: MIT
// Alone in its file, so that a new version compiles one file again.
#include "server/cli/version.h"

namespace ballast::cli {

const char* version() {
    return BALLAST_VERSION;
}

}  // namespace ballast::cli
