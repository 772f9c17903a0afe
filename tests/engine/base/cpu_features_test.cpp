// SPDX-License-Identifier: MIT
#include "engine/base/cpu_features.h"

#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(CpuFeatures, NamesTheInstructionSets) {
    EXPECT_STREQ(isa_name(Isa::kScalar), "scalar");
    EXPECT_STREQ(isa_name(Isa::kAvx2), "avx2");
    EXPECT_STREQ(isa_name(Isa::kAvx512), "avx512");
}

TEST(CpuFeatures, AgreesWithWhatTheKernelLists) {
    std::ifstream cpuinfo("/proc/cpuinfo");
    std::string flags;
    for (std::string line; std::getline(cpuinfo, line) && flags.empty();) {
        if (line.starts_with("flags")) {
            flags = line + " ";
        }
    }
    if (flags.empty()) {
        GTEST_SKIP() << "SKIPPED: /proc/cpuinfo lists no flags here";
    }
    const auto has = [&](const std::string& flag) {
        return flags.find(" " + flag + " ") != std::string::npos;
    };
    const CpuFeatures features = detect_cpu_features();
    EXPECT_EQ(features.avx2, has("avx2") && has("fma") && has("f16c"));
    EXPECT_EQ(features.avx512,
              features.avx2 && has("avx512f") && has("avx512bw") && has("avx512vl") &&
                  has("avx512dq") && has("avx512_vnni"));
    EXPECT_GE(features.logical_cores, 1);
}

}  // namespace
}  // namespace ballast
