// SPDX-License-Identifier: MIT
// Replaces operator new of this test program by one that counts.
#pragma once

namespace ballast::test {

/// Calls of operator new since the program began, on all threads.
int n_allocations();

}  // namespace ballast::test
