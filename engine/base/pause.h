// SPDX-License-Identifier: MIT
// For loops that look at a variable until another thread has changed it.
#pragma once

namespace ballast {

/// Tells the processor that nothing happens here: some 10 ns, in which a thread on the same core
/// gets on.
inline void pause_cpu() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace ballast
