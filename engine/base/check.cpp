// SPDX-License-Identifier: MIT
// Prints the broken assertion and stops the process.
#include "engine/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ballast {

void check_failed(const char* expression, const char* file, int line) {
    std::fprintf(stderr, "ballast: internal error: %s (%s:%d)\n", expression, file, line);
    std::abort();
}

}  // namespace ballast
