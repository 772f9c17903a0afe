// SPDX-License-Identifier: MIT
// What this processor can execute, read once; decides which kernel table is used.
#pragma once

#include <string>

namespace ballast {

/// Instruction sets that kernels exist for, in rising order of preference.
enum class Isa { kScalar, kAvx2, kAvx512 };

struct CpuFeatures {
    bool avx2 = false;    // AVX2, FMA and F16C
    bool avx512 = false;  // AVX-512 F, BW, VL, DQ and VNNI
    std::string model_name;
    int logical_cores = 1;
};

/// Asks the processor and the operating system (a set is reported only if its registers are saved).
CpuFeatures detect_cpu_features();
/// "scalar", "avx2", "avx512".
const char* isa_name(Isa isa);

}  // namespace ballast
