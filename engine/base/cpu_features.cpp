// SPDX-License-Identifier: MIT
// __builtin_cpu_supports also checks that the operating system saves the wider registers.
#include "engine/base/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <fstream>
#include <thread>

namespace ballast {

namespace {

#if defined(__x86_64__)
// clang 14 does not know this feature's name. Its registers are AVX's, which the other names check.
bool has_f16c() {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

}  // namespace

CpuFeatures detect_cpu_features() {
    CpuFeatures features;
#if defined(__x86_64__)
    features.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    features.avx512 = features.avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
#endif
    const unsigned cores = std::thread::hardware_concurrency();
    features.logical_cores = cores == 0 ? 1 : static_cast<int>(cores);
    std::ifstream cpuinfo("/proc/cpuinfo");
    for (std::string line; std::getline(cpuinfo, line);) {
        if (line.starts_with("model name")) {
            const auto colon = line.find(": ");
            features.model_name = colon == std::string::npos ? "" : line.substr(colon + 2);
            break;
        }
    }
    return features;
}

const char* isa_name(Isa isa) {
    switch (isa) {
        case Isa::kScalar:
            return "scalar";
        case Isa::kAvx2:
            return "avx2";
        case Isa::kAvx512:
            return "avx512";
    }
    return "unknown";
}

}  // namespace ballast
