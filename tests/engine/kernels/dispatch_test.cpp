// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "engine/kernels/cpu/tables.h"
#include "tests/engine/kernels/support.h"

namespace ballast::kernels::test {
namespace {

TEST(KernelDispatch, ChoosesTheBestTableOfThisProcessorWhenNothingIsForced) {
    const auto chosen = choose_kernels("");
    ASSERT_TRUE(chosen.has_value());
    EXPECT_EQ(*chosen, available_tables().back());
    const CpuFeatures features = detect_cpu_features();
    const Isa best = features.avx512 ? Isa::kAvx512 : (features.avx2 ? Isa::kAvx2 : Isa::kScalar);
    EXPECT_EQ((*chosen)->isa, best);
}

TEST(KernelDispatch, ObeysTheForcedInstructionSet) {
    for (const KernelTable* table : available_tables()) {
        const auto chosen = choose_kernels(isa_name(table->isa));
        ASSERT_TRUE(chosen.has_value()) << isa_name(table->isa);
        EXPECT_EQ((*chosen)->isa, table->isa);
    }
}

TEST(KernelDispatch, TablesOfDifferentSetsShareNoProductKernel) {
    const auto tables = available_tables();
    for (std::size_t i = 1; i < tables.size(); ++i) {
        for (const auto type : weight_types()) {
            EXPECT_NE(tables[i]->linear(type).matvec, tables[0]->linear(type).matvec);
            EXPECT_NE(tables[i]->linear(type).matmul, tables[i - 1]->linear(type).matmul);
        }
        EXPECT_NE(tables[i]->attention, tables[i - 1]->attention);
    }
}

TEST(KernelDispatch, RefusesAnUnknownInstructionSetByName) {
    const auto chosen = choose_kernels("mmx");
    ASSERT_FALSE(chosen.has_value());
    EXPECT_EQ(chosen.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(chosen.error().message.find("'mmx'"), std::string::npos);
    EXPECT_NE(chosen.error().message.find("avx512"), std::string::npos);
}

TEST(KernelDispatch, RefusesAForcedSetThatTheProcessorLacks) {
    CpuFeatures only_avx2;
    only_avx2.avx2 = true;
    const auto refused = choose_kernels_for(only_avx2, "avx512");
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(refused.error().message.find("avx512"), std::string::npos);
    EXPECT_FALSE(choose_kernels_for(CpuFeatures{}, "avx2").has_value());
    EXPECT_TRUE(choose_kernels_for(CpuFeatures{}, "scalar").has_value());
}

TEST(KernelDispatch, FallsBackToWhatTheProcessorHas) {
    const auto scalar = choose_kernels_for(CpuFeatures{}, "");
    ASSERT_TRUE(scalar.has_value());
    EXPECT_EQ((*scalar)->isa, Isa::kScalar);
#if defined(__x86_64__)
    CpuFeatures features;
    features.avx2 = true;
    const auto avx2 = choose_kernels_for(features, "");
    ASSERT_TRUE(avx2.has_value());
    EXPECT_EQ((*avx2)->isa, Isa::kAvx2);
#endif
}

}  // namespace
}  // namespace ballast::kernels::test
