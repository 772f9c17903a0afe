// SPDX-License-Identifier: MIT
// The bound against figures worked out by hand, and against its linear program by bisection.
#include "scheduler/profile/bound.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "engine/base/rng.h"
#include "scheduler/profile/model_store.h"
#include "scheduler/profile/profile_store.h"

namespace ballast::scheduler {
namespace {

struct Case {
    const char* hardware;
    const char* model;
    double read_gb;
    double resident_gb;
    double expected_ms;
};

// Decode of one token at depth 2048, Q4_K_M (gpt-oss: MXFP4); routed experts at the uniform hit
// rate. Worked out by hand from the formulas of bound.h; read_gb has three digits, hence the
// tolerance.
constexpr Case kCases[] = {
    {"laptop-4060", "llama-3.1-8b", 4.89, 4.89, 17.9},
    {"laptop-4060", "qwen3-14b", 8.89, 6.3, 36.8},
    {"laptop-4060", "qwen3-32b", 19.86, 6.3, 192.3},
    {"laptop-3060", "qwen3-14b", 8.89, 5.0, 88.5},
    {"desktop-3060-gen3", "qwen3-14b", 8.89, 8.89, 25.6},
    {"desktop-3060-gen4", "qwen3-32b", 19.86, 10.5, 217.6},
    {"desktop-4070", "qwen3-32b", 19.86, 10.5, 116.9},
    {"desktop-4090", "qwen3-32b", 19.86, 19.86, 21.6},
    {"desktop-4090", "llama-3.3-70b", 42.59, 22.0, 468.0},
    {"desktop-4090", "gpt-oss-120b", 3.67, 2.39, 29.0},
    {"desktop-5090", "llama-3.3-70b", 42.59, 29.5, 159.7},
    {"desktop-a770", "qwen3-32b", 19.86, 14.5, 71.4},
    {"egpu-4060ti", "qwen3-32b", 19.86, 14.5, 85.3},
    {"desktop-7900xtx", "qwen3-32b", 19.86, 19.86, 46.9},
    {"apu-780m", "llama-3.1-8b", 4.89, 4.89, 66.9},
    {"strix-halo", "gpt-oss-120b", 3.67, 3.67, 17.1},
    {"apple-m2", "qwen3-14b", 8.89, 8.89, 98.8},
    {"apple-m3-max", "llama-3.3-70b", 42.59, 42.59, 118.3},
    {"apple-m4-max", "llama-4-scout", 10.31, 10.31, 21.0},
};

TEST(Bound, IsWhatTheFormulasGiveByHand) {
    for (const Case& c : kCases) {
        const auto hardware = stored_hardware(c.hardware);
        ASSERT_TRUE(hardware) << hardware.error().message;
        const double ms = 1000.0 * lower_bound_seconds(*hardware,
                                                       {.parts = {{.read_gb = c.read_gb}},
                                                        .resident_gb = c.resident_gb});
        EXPECT_NEAR(ms, c.expected_ms, 0.005 * c.expected_ms) << c.hardware << ' ' << c.model;
    }
}

/// Whether the program's constraints can be met in T seconds, by trying x: the rest follows.
bool fits(const HardwareProfile& h, double read_gb, double resident_gb, double seconds) {
    constexpr int kTries = 2000;
    const double x_max = std::min({resident_gb, read_gb, h.device_read_gbps * seconds});
    for (int i = 0; i <= kTries; ++i) {
        const double x = x_max * i / kTries;
        const double s_max = std::min(h.link_gbps * seconds, h.device_read_gbps * seconds - x);
        const double c_max = h.cpu_read_gbps * seconds;
        if (x + std::min(s_max + c_max, h.dram_gbps * seconds) >= read_gb * (1.0 - 1e-9)) {
            return true;
        }
    }
    return false;
}

TEST(Bound, IsTheLeastTimeThatTheProgramAllows) {
    Rng rng(1);
    const auto draw = [&](double low, double high) { return low + (high - low) * rng.uniform(); };
    for (int round = 0; round < 300; ++round) {
        const HardwareProfile h{.device_read_gbps = draw(20, 1600),
                                .cpu_read_gbps = draw(10, 100),
                                .link_gbps = draw(1, 60),
                                .dram_gbps = draw(10, 160)};
        const double read_gb = draw(0.5, 60);
        const double resident_gb = draw(0, 30);
        const double bound =
            lower_bound_seconds(h, {.parts = {{.read_gb = read_gb}}, .resident_gb = resident_gb});
        EXPECT_TRUE(fits(h, read_gb, resident_gb, bound * 1.001)) << round;
        EXPECT_FALSE(fits(h, read_gb, resident_gb, bound * 0.999)) << round;
    }
}

TEST(Bound, CountsArithmeticWhereThereIsMuchForEachByte) {
    const HardwareProfile h{.device_read_gbps = 200,
                            .cpu_read_gbps = 50,
                            .link_gbps = 12,
                            .dram_gbps = 60,
                            .device_tflops = 20,
                            .cpu_tflops = 1};
    // 5 GB resident: 25 ms to read alone on the device, 0.5 s for 10.5 TFLOP on both sides.
    EXPECT_NEAR(
        lower_bound_seconds(h, {.parts = {{.read_gb = 5, .tflop = 10.5}}, .resident_gb = 5}),
        0.5,
        1e-9);
    EXPECT_NEAR(
        lower_bound_seconds(h, {.parts = {{.read_gb = 5, .tflop = 1e-6}}, .resident_gb = 5}),
        0.02,
        1e-9);
    EXPECT_EQ(lower_bound_seconds(h, {}), 0.0);
}

TEST(Bound, GivesEachSideTheWorkItIsBestAt) {
    const HardwareProfile h{.device_read_gbps = 100,
                            .cpu_read_gbps = 50,
                            .link_gbps = 10,
                            .dram_gbps = 60,
                            .device_tflops = 10,
                            .cpu_tflops = 1};
    // 1 TFLOP without reading, and 5 GB without arithmetic. Both sides read and compute at once,
    // with 11 TFLOP/s and 150 GB/s together: the arithmetic decides.
    const StepDemand apart = {.parts = {{.tflop = 1}, {.read_gb = 5}}, .resident_gb = 5};
    EXPECT_NEAR(lower_bound_seconds(h, apart), 1.0 / 11, 1e-9);
    // The same as one part: what computes has to read as well, and the CPU's eleventh of it is less
    // than its share of the reading could be.
    const StepDemand together = {.parts = {{.read_gb = 5, .tflop = 1}}, .resident_gb = 5};
    EXPECT_NEAR(lower_bound_seconds(h, together), 1.0 / 11, 1e-9);
    // Where reading and arithmetic stand in different proportions, each side gets what suits it:
    // the device computes (0.1 s for 1 TFLOP), the CPU reads (0.1 s for 5 GB of which nothing is
    // resident and little can stream).
    const StepDemand suited = {.parts = {{.read_gb = 1e-3, .tflop = 1.0}, {.read_gb = 5.0}}};
    const double seconds = lower_bound_seconds(h, suited);
    EXPECT_GT(seconds, 5.0 / 60);
    EXPECT_LT(seconds, 0.1);
    // Experts of which the device reaches half its arithmetic: 1/(5 + 1) s.
    EXPECT_NEAR(
        lower_bound_seconds(
            h,
            {.parts = {{.read_gb = 1e-6, .tflop = 1, .device_efficiency = 0.5}}, .resident_gb = 1}),
        1.0 / 6,
        1e-6);
}

TEST(StepDemand, IsTheWorkOfTheGroups) {
    const TensorCatalog catalog = *catalog_of(*stored_model("gpt-oss-120b"), "");
    const auto read = [](const StepDemand& demand) {
        double gb = 0.0;
        for (const DemandPart& part : demand.parts) {
            gb += part.read_gb;
        }
        return gb;
    };
    // The table above: 3.67 GB a token, 2.39 of them resident in 22 GB.
    const StepDemand decode =
        step_demand(catalog, {.tokens = 1, .depth = 2048}, Locality::kUniform, 0.63, 22e9);
    EXPECT_NEAR(read(decode), 3.67, 0.02);
    EXPECT_NEAR(decode.resident_gb, 2.39, 0.02);
    // max(f, h(f)): strong locality meets more, and never less than what is resident.
    EXPECT_GT(step_demand(catalog, {.tokens = 1, .depth = 2048}, Locality::kStrong, 0.63, 22e9)
                  .resident_gb,
              decode.resident_gb);
    // A long prompt meets every expert once.
    const StepDemand prefill =
        step_demand(catalog, {.tokens = 4096, .depth = 0}, Locality::kUniform, 0.63, 22e9);
    EXPECT_NEAR(read(prefill),
                static_cast<double>(catalog.total_bytes() - catalog.embedding_bytes) / 1e9,
                0.5);
}

TEST(StepDemand, PrefersExpertsToWhatIsAlwaysReadWhereFewAreAskedForAgain) {
    // 1 GB always read, 100 experts of 0.1 GB of which 50 are used, 1 GB of memory. With strong
    // locality a share f of the experts meets f^0.17 of 5 GB: at f = 0.0466, where the slope of
    // that is the 10 GB that f costs, 2.97 GB are met beside 0.53 GB of the rest.
    TensorCatalog catalog;
    catalog.groups = {{.kind = GroupKind::kExperts,
                       .layer = 0,
                       .parts = 100,
                       .weight_bytes = 1'000'000'000,
                       .experts_used = 50,
                       .expert_bytes = 100'000'000}};
    const auto resident = [&](Locality locality, const StepShape& step) {
        return step_demand(catalog, step, locality, 1.0, 1e9).resident_gb;
    };
    EXPECT_NEAR(resident(Locality::kStrong, {}), 3.504, 0.001);
    // Otherwise a byte of experts meets less than a byte.
    EXPECT_NEAR(resident(Locality::kUniform, {}), 1.0, 1e-9);
    EXPECT_NEAR(resident(Locality::kStrong, {.tokens = 100}), 1.0, 1e-9);
}

TEST(Bound, ReadsEverythingOnTheCpuWithoutADevice) {
    const HardwareProfile h{
        .has_device = false, .cpu_read_gbps = 50, .dram_gbps = 40, .cpu_tflops = 0.5};
    EXPECT_NEAR(lower_bound_seconds(h, {.parts = {{.read_gb = 4}}}), 0.1, 1e-12);
    EXPECT_NEAR(lower_bound_seconds(h, {.parts = {{.read_gb = 4}}, .resident_gb = 4}), 0.1, 1e-12);
    // 1 TFLOP at 0.5 TFLOPS is 2 s, more than the reading.
    EXPECT_NEAR(lower_bound_seconds(h, {.parts = {{.read_gb = 4, .tflop = 1}}}), 2.0, 1e-12);
    EXPECT_EQ(lower_bound_seconds(h, {}), 0.0);
}

}  // namespace
}  // namespace ballast::scheduler
