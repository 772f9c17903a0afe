// SPDX-License-Identifier: MIT
// Copies of weights on a device: how they are packed, and what a failure costs.
#include "engine/runtime/device_weights.h"

#include <cstring>

#include <gtest/gtest.h>

#include "engine/backend/host_backend.h"

namespace ballast::runtime {
namespace {

using backend::HostBackend;
using backend::UnitId;

/// Units of 1000, 300, 300, 5000 and 64 bytes, each of one value throughout.
class DeviceWeightsTest : public testing::Test {
  protected:
    DeviceWeightsTest() {
        for (const std::size_t size : {1000U, 300U, 300U, 5000U, 64U}) {
            data_.emplace_back(size, static_cast<std::byte>(data_.size() + 1));
        }
        for (const auto& bytes : data_) {
            host_.push_back({.data = bytes.data(), .n_rows = 1, .row_bytes = bytes.size()});
        }
    }
    WeightSlice whole(UnitId unit) const {
        return whole_slice(unit, host_[static_cast<std::size_t>(unit)]);
    }
    std::vector<std::vector<WeightSlice>> whole(
        const std::vector<std::vector<UnitId>>& groups) const {
        std::vector<std::vector<WeightSlice>> slices;
        for (const auto& units : groups) {
            slices.emplace_back();
            for (const UnitId unit : units) {
                slices.back().push_back(whole(unit));
            }
        }
        return slices;
    }
    const std::byte* copy_of(const DeviceWeights& weights, UnitId unit) const {
        return weights.view(whole(unit)).data;
    }
    void expect_copied(const DeviceWeights& weights, UnitId unit) const {
        const auto index = static_cast<std::size_t>(unit);
        const std::byte* copy = copy_of(weights, unit);
        ASSERT_NE(copy, nullptr) << unit;
        EXPECT_NE(copy, data_[index].data());
        EXPECT_EQ(std::memcmp(copy, data_[index].data(), data_[index].size()), 0) << unit;
    }

    const SystemClock clock_;
    const kernels::KernelTable& kernels_ = *kernels::find_kernels(Isa::kScalar);
    std::vector<std::vector<std::byte>> data_;
    std::vector<backend::WeightView> host_;
};

TEST(ChunkBytes, AreASixteenthOfTheBudgetWithinBounds) {
    EXPECT_EQ(chunk_bytes(1), kMiB);
    EXPECT_EQ(chunk_bytes(40 * kMiB), 40 * kMiB / 16);
    EXPECT_EQ(chunk_bytes(6 * 1024 * kMiB), 256 * kMiB);
}

TEST_F(DeviceWeightsTest, PacksUnitsInOrderAndALargeOneByItself) {
    HostBackend device(kernels_, clock_, {});
    {
        DeviceWeights weights(device, host_);
        const std::vector<std::vector<UnitId>> groups = {{0, 1}, {3, 1}, {4}};
        const auto results = weights.upload(whole(groups), 1400);
        ASSERT_EQ(results.size(), 3U);
        for (const Status& status : results) {
            EXPECT_TRUE(status.has_value());
        }
        for (const UnitId unit : {0, 1, 3, 4}) {
            expect_copied(weights, unit);
        }
        EXPECT_EQ(copy_of(weights, 2), nullptr) << "nobody asked for it";
        // 1000 and, from 1024 on, 300 bytes; 5000; 64.
        EXPECT_EQ(copy_of(weights, 1) - copy_of(weights, 0), 1024);
        EXPECT_EQ(weights.total_bytes(), 1324U + 5000 + 64);
        EXPECT_EQ(device.used_bytes(), weights.total_bytes());
    }
    EXPECT_EQ(device.used_bytes(), 0U);
}

TEST_F(DeviceWeightsTest, FailsOnlyTheGroupsOfAChunkThatIsRefused) {
    HostBackend device(kernels_, clock_, {.faults = {.failed_allocation = 2}});
    DeviceWeights weights(device, host_);
    const std::vector<std::vector<UnitId>> groups = {{0, 1}, {3, 2}, {2, 4}};
    const auto results = weights.upload(whole(groups), 1400);
    EXPECT_TRUE(results[0].has_value());
    ASSERT_FALSE(results[1].has_value());
    EXPECT_EQ(results[1].error().code, ErrorCode::kOutOfMemory);
    EXPECT_TRUE(results[2].has_value()) << "its units are in the third chunk";
    expect_copied(weights, 0);
    expect_copied(weights, 2);
    EXPECT_EQ(copy_of(weights, 3), nullptr);
}

TEST_F(DeviceWeightsTest, FailsWhereTheMemoryEnds) {
    HostBackend device(kernels_, clock_, {.memory_bytes = 2000});
    DeviceWeights weights(device, host_);
    const auto results = weights.upload(whole({{0}, {3}, {1}}), 1000);
    EXPECT_TRUE(results[0].has_value());
    EXPECT_FALSE(results[1].has_value());
    EXPECT_TRUE(results[2].has_value()) << "a small one still fits";
}

TEST_F(DeviceWeightsTest, GivesBackTheChunksThatNobodyNeeds) {
    HostBackend device(kernels_, clock_, {});
    DeviceWeights weights(device, host_);
    weights.upload(whole({{0}, {3}, {4, 1}}), 1000);
    const std::vector<WeightSlice> needed = {whole(1)};
    weights.keep_only(needed);
    EXPECT_EQ(copy_of(weights, 0), nullptr);
    EXPECT_EQ(copy_of(weights, 3), nullptr);
    expect_copied(weights, 1);
    expect_copied(weights, 4);
    EXPECT_EQ(device.used_bytes(), 364U) << "the one chunk of both";
}

TEST_F(DeviceWeightsTest, WaitsWhereItPutsMoreThanAQueueTakes) {
    std::vector<UnitId> many;
    for (int i = 0; i < 1000; ++i) {
        host_.push_back(host_[4]);
        many.push_back(static_cast<UnitId>(host_.size() - 1));
    }
    HostBackend device(kernels_, clock_, {.pace = {.latency = std::chrono::microseconds(1)}});
    DeviceWeights weights(device, host_);
    const auto results = weights.upload(whole({many}), kMiB);
    ASSERT_TRUE(results[0].has_value()) << results[0].error().message;
    for (const UnitId unit : many) {
        ASSERT_EQ(std::memcmp(copy_of(weights, unit), data_[4].data(), 64), 0);
    }
}

}  // namespace
}  // namespace ballast::runtime
