// SPDX-License-Identifier: MIT
#include "scheduler/profile/cost_model.h"

#include <gtest/gtest.h>

namespace ballast::scheduler {
namespace {

HardwareProfile hardware() {
    return {.device_read_gbps = 200, .cpu_read_gbps = 50, .device_tflops = 20, .cpu_tflops = 1};
}

TEST(CostModel, TakesTheLongerOfReadingAndComputing) {
    const CostModel costs(hardware());
    // 1 GB at 50 GB/s is 20 ms; 40 GFLOP at 1 TFLOP/s are 40 ms.
    EXPECT_DOUBLE_EQ(costs.seconds(Side::kCpu, GroupKind::kHead, {.bytes = 1e9, .flops = 1e9}),
                     0.020);
    EXPECT_DOUBLE_EQ(costs.seconds(Side::kCpu, GroupKind::kHead, {.bytes = 1e9, .flops = 40e9}),
                     0.040);
    EXPECT_DOUBLE_EQ(costs.seconds(Side::kDevice, GroupKind::kHead, {.bytes = 1e9, .flops = 40e9}),
                     0.005);
}

TEST(CostModel, AWrongProfileIsCorrectedByMeasuredTimes) {
    CostModel costs(hardware());
    const Work work = {.bytes = 1e9};
    // The CPU is twice as slow as the profile says.
    for (int step = 0; step < 40; ++step) {
        costs.observe(Side::kCpu,
                      GroupKind::kFeedForward,
                      costs.seconds(Side::kCpu, GroupKind::kFeedForward, work),
                      0.040);
    }
    EXPECT_NEAR(costs.seconds(Side::kCpu, GroupKind::kFeedForward, work), 0.040, 1e-5);
    EXPECT_NEAR(costs.factor(Side::kCpu, GroupKind::kFeedForward), 2.0, 1e-3);
    // Nothing is concluded about what was not measured.
    EXPECT_DOUBLE_EQ(costs.factor(Side::kCpu, GroupKind::kAttention), 1.0);
    EXPECT_DOUBLE_EQ(costs.factor(Side::kDevice, GroupKind::kFeedForward), 1.0);
}

TEST(CostModel, OneDisturbedStepDoesNotUnsettleIt) {
    CostModel costs(hardware());
    costs.observe(Side::kDevice, GroupKind::kAttention, 0.001, 0.0015);
    EXPECT_DOUBLE_EQ(costs.factor(Side::kDevice, GroupKind::kAttention), 1.125);
}

TEST(GroupWork, CountsKvUpToTheWindowAndOneRowOfTheHead) {
    const TensorGroup attention = {.kind = GroupKind::kAttention,
                                   .weight_bytes = 1000,
                                   .weights = 2000,
                                   .kv_bytes_per_token = 8,
                                   .window = 100,
                                   .attention_width = 16};
    // 50 tokens after 20: half of them, and the 20, are seen on average.
    const Work prefill = group_work(attention, {.tokens = 50, .depth = 20});
    EXPECT_DOUBLE_EQ(prefill.bytes, 1000 + 8 * 45);
    EXPECT_DOUBLE_EQ(prefill.flops, 2.0 * 2000 * 50 + 4.0 * 16 * 50 * 45);
    const Work decode = group_work(attention, {.tokens = 1, .depth = 4000});
    EXPECT_DOUBLE_EQ(decode.bytes, 1000 + 8 * 100);
    const TensorGroup head = {.kind = GroupKind::kHead, .weight_bytes = 10, .weights = 20};
    EXPECT_DOUBLE_EQ(group_work(head, {.tokens = 50, .depth = 0}).flops, 40);
}

TEST(HitRate, MeetsItsEndsAndPublishedPoints) {
    for (const Locality locality : {Locality::kUniform, Locality::kWeak, Locality::kStrong}) {
        EXPECT_DOUBLE_EQ(hit_rate(locality, 0.0), 0.0);
        EXPECT_DOUBLE_EQ(hit_rate(locality, 1.0), 1.0);
    }
    // llama.cpp pull request 27861: 64 and 128 of 512 experts met 67% and 81% of requests.
    EXPECT_NEAR(hit_rate(Locality::kStrong, 64.0 / 512), 0.67, 0.06);
    EXPECT_NEAR(hit_rate(Locality::kStrong, 128.0 / 512), 0.81, 0.06);
    EXPECT_DOUBLE_EQ(hit_rate(Locality::kUniform, 0.3), 0.3);
    EXPECT_NEAR(hit_rate(Locality::kWeak, 0.5), 0.713, 0.001);
}

}  // namespace
}  // namespace ballast::scheduler
