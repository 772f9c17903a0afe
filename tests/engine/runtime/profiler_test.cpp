// SPDX-License-Identifier: MIT
// The profiler as a list of slices, and the one that works in idle gaps.
#include "engine/runtime/profiler.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "engine/backend/host_backend.h"
#include "engine/runtime/compute.h"
#include "engine/runtime/idle_profiler.h"
#include "engine/runtime/profile_file.h"
#include "scheduler/profile/profile_store.h"
#include "tests/engine/runtime/harness.h"
#include "tests/engine/runtime/manual_clock.h"

namespace ballast::test {
namespace {

using runtime::Profiler;
using runtime::ProfilerOptions;

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr int kSlicesMax = 10'000;

/// Small, and quick where the clock steps 10 ms whenever it is asked: two pieces a sample.
ProfilerOptions small() {
    return {.formats = {},
            .attention = {.n_heads = 4, .n_kv_heads = 2, .head_dim = 32},
            .row_length = 256,
            .memory_bytes = 32 * kMiB,
            .cache_bytes = 4 * kMiB};
}

struct Machine {
    ThreadPool pool{2};
    SteppingClock clock{std::chrono::milliseconds(10)};
    const kernels::KernelTable& kernels = **kernels::choose_kernels("");

    std::unique_ptr<Profiler> profiler(ProfilerOptions options) {
        auto made = Profiler::create(pool, kernels, clock, std::move(options));
        EXPECT_TRUE(made) << made.error().message;
        return std::move(*made);
    }
};

int run_to_end(Profiler& profiler) {
    int n = 0;
    for (; !profiler.done() && n < kSlicesMax; ++n) {
        const Status status = profiler.run_slice();
        EXPECT_TRUE(status) << status.error().message;
    }
    return n;
}

TEST(Profiler, MeasuresAllOfAMachineWithoutADevice) {
    Machine machine;
    ProfilerOptions options = small();
    options.formats = {{.type = quant::QuantType::kQ6_K}};
    const auto profiler = machine.profiler(options);
    EXPECT_EQ(profiler->progress(), 0.0);
    double progress = 0.0;
    while (!profiler->done()) {
        ASSERT_TRUE(profiler->run_slice());
        EXPECT_GE(profiler->progress(), progress);
        progress = profiler->progress();
        EXPECT_FALSE(profiler->doing().empty());
    }
    EXPECT_EQ(progress, 1.0);

    scheduler::HardwareProfile profile =
        runtime::empty_profile({.cpu = "x", .cores = 2, .ram_bytes = 1 << 30}, 0);
    profiler->fill(profile);
    // All that a profile needs is there, since it can be read again.
    const auto again = scheduler::parse_hardware(scheduler::write_hardware(profile), "again");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, profile);
    EXPECT_FALSE(again->has_device);
    EXPECT_EQ(again->dram_gbps, again->cpu_read_gbps);
    EXPECT_GT(again->cpu_read_one_thread_gbps, 0.0);
    EXPECT_GT(again->copy_gbps, 0.0);
    std::vector<std::pair<std::string, int>> seen;
    for (const scheduler::OpRate& rate : again->ops) {
        seen.emplace_back(rate.op + " " + rate.type, rate.tokens);
    }
    using Seen = std::pair<std::string, int>;
    EXPECT_EQ(seen,
              (std::vector<Seen>{{"linear Q6_K", 1},
                                 {"linear Q6_K", 8},
                                 {"linear Q6_K", 64},
                                 {"linear Q6_K", 512},
                                 {"attention F16", 1},
                                 {"attention F16", 64}}));
    EXPECT_GE(profiler->figures().size(), 9U);
}

/// A device of threads in the place of a GPU.
struct Device {
    explicit Device(backend::FaultPlan faults = {})
        : host(**kernels::choose_kernels(""), time, {.memory_bytes = kBytes, .faults = faults}) {}
    ProfilerOptions options() {
        ProfilerOptions with = small();
        with.device = &host;
        with.device_bytes = kBytes;
        return with;
    }
    static constexpr std::uint64_t kBytes = 64 * kMiB;
    SystemClock time;
    backend::HostBackend host;
};

TEST(Profiler, MeasuresADeviceAndItsLink) {
    Machine machine;
    Device device;
    auto profiler = machine.profiler(device.options());
    run_to_end(*profiler);
    scheduler::HardwareProfile profile =
        runtime::empty_profile({.cpu = "x", .cores = 2, .ram_bytes = 1 << 30}, 0);
    profiler->fill(profile);
    const auto again = scheduler::parse_hardware(scheduler::write_hardware(profile), "again");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, profile);
    EXPECT_TRUE(again->has_device);
    EXPECT_FALSE(again->unified_memory);
    EXPECT_DOUBLE_EQ(again->device_memory_gb, 0.067108864);
    // Each figure is that of its own stage, the larger one where there are several.
    std::map<std::string, double> medians;
    for (const runtime::Figure& figure : profiler->figures()) {
        medians[figure.name] = figure.median;
        EXPECT_EQ(figure.unit == "us", figure.name == "hop") << figure.name;
    }
    const auto most = [&](const char* one, const char* other) {
        return std::max(medians.at(one), medians.at(other));
    };
    constexpr double kDigits = 1e-3;
    const auto near = [](double value, double expected) {
        EXPECT_GT(expected, 0.0);
        EXPECT_NEAR(value / expected, 1.0, kDigits);
    };
    near(again->link_gbps, medians.at("link, pinned"));
    near(again->link_staged_gbps, medians.at("link, staged"));
    near(again->hop_us, medians.at("hop"));
    near(again->dram_gbps, most("CPU and link together", "CPU reads, 2 threads"));
    near(again->device_read_gbps, most("device reads Q8_0", "device reads Q4_K"));
    near(again->device_tflops * 1e3,
         most("device arithmetic Q8_0, 512 tokens", "device arithmetic Q4_K, 512 tokens"));
    EXPECT_GT(medians.at("link, pinned, back"), 0.0);
    EXPECT_GT(device.host.used_bytes(), 32 * kMiB);
    profiler.reset();
    EXPECT_EQ(device.host.used_bytes(), 0U);
}

TEST(Profiler, TakesDroppedSlicesOfADeviceAgain) {
    Machine machine;
    Device device;
    const auto profiler = machine.profiler(device.options());
    bool in_device = false;
    bool drop = false;
    for (int n = 0; !profiler->done(); ++n) {
        ASSERT_LT(n, kSlicesMax);
        const bool taking = profiler->doing() == "taking memory";
        in_device = in_device || profiler->doing() == "link, pinned";
        ASSERT_TRUE(profiler->run_slice());
        if ((taking || in_device) && std::exchange(drop, !drop)) {
            profiler->drop_slice();
        }
    }
    std::vector<std::string> names;
    for (const runtime::Figure& figure : profiler->figures()) {
        names.push_back(figure.name);
    }
    ASSERT_GE(names.size(), 9U);
    EXPECT_EQ(std::vector<std::string>(names.end() - 9, names.end()),
              (std::vector<std::string>{"link, pinned",
                                        "link, pinned, back",
                                        "link, staged",
                                        "CPU and link together",
                                        "hop",
                                        "device reads Q8_0",
                                        "device reads Q4_K",
                                        "device arithmetic Q8_0, 512 tokens",
                                        "device arithmetic Q4_K, 512 tokens"}));
}

TEST(Profiler, EndsWithADeviceThatIsLostAndGivesItsMemoryBack) {
    Machine machine;
    for (const backend::FaultPlan& faults : {backend::FaultPlan{.lost_at_submission = 3},
                                             backend::FaultPlan{.failed_host = 1},
                                             backend::FaultPlan{.failed_allocation = 2}}) {
        Device device(faults);
        auto profiler = machine.profiler(device.options());
        Status status;
        for (int n = 0; status && !profiler->done() && n < kSlicesMax; ++n) {
            status = profiler->run_slice();
        }
        ASSERT_FALSE(status);
        EXPECT_EQ(
            status.error().code,
            faults.lost_at_submission != 0 ? ErrorCode::kDeviceLost : ErrorCode::kOutOfMemory);
        profiler.reset();
        EXPECT_EQ(device.host.used_bytes(), 0U);
    }
}

TEST(Profiler, RefusesADeviceThatItCannotMeasurePastTheCaches) {
    Machine machine;
    Device device;
    ProfilerOptions options = device.options();
    options.device_bytes = 32 * kMiB;
    const auto made = Profiler::create(machine.pool, machine.kernels, machine.clock, options);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::kOutOfMemory);
    EXPECT_EQ(made.error().message,
              "the device's 32MiB are too little to measure past 4 MiB of cache; it takes 41 MiB");
    options.device_bytes = 41 * kMiB;
    EXPECT_TRUE(Profiler::create(machine.pool, machine.kernels, machine.clock, options));
    // Where only formats are wanted, nothing of a device is.
    options.device_bytes = 0;
    options.machine = false;
    EXPECT_TRUE(Profiler::create(machine.pool, machine.kernels, machine.clock, options));
}

TEST(Profiler, MeasuresTheTypesOfAModelInPlace) {
    const TinyFixture fixture;
    const auto formats = runtime::formats_of(*fixture.model().model);
    ASSERT_FALSE(formats.empty());
    std::size_t bytes_before = SIZE_MAX;
    for (const runtime::ProfileFormat& format : formats) {
        std::size_t bytes = 0;
        for (const backend::WeightView& matrix : format.matrices) {
            EXPECT_EQ(matrix.type, format.type);
            EXPECT_EQ(matrix.n_slices, 1U);
            bytes += matrix.slice_bytes();
        }
        EXPECT_LE(bytes, bytes_before);
        bytes_before = bytes;
    }
    Machine machine;
    ProfilerOptions options = small();
    options.machine = false;
    options.formats = formats;
    const auto profiler = machine.profiler(options);
    run_to_end(*profiler);
    scheduler::HardwareProfile profile;
    profile.ops = {{"linear", "IQ4_XS", 1, 1.0, 2.0},
                   {"linear", std::string(quant::traits(formats[0].type).name), 1, 1e-9, 1e-9}};
    profiler->fill(profile);
    // What was not measured now stays, what was is replaced in its place.
    EXPECT_EQ(profile.cpu_read_gbps, 0.0);
    EXPECT_EQ(profile.ops[0].type, "IQ4_XS");
    EXPECT_GT(profile.ops[1].cpu_gbps, 1e-9);
    EXPECT_EQ(std::count_if(profile.ops.begin(),
                            profile.ops.end(),
                            [&](const scheduler::OpRate& rate) {
                                return rate.type == profile.ops[1].type && rate.tokens == 1;
                            }),
              1);
}

TEST(Profiler, TakesADroppedSliceAgain) {
    Machine machine;
    ProfilerOptions options = small();
    options.machine = false;
    options.formats = {{.type = quant::QuantType::kQ8_0}};
    const auto profiler = machine.profiler(options);
    // Nothing is measured yet: dropping does no harm.
    profiler->drop_slice();
    ASSERT_TRUE(profiler->run_slice());
    profiler->drop_slice();
    run_to_end(*profiler);
    const auto figures = profiler->figures();
    ASSERT_TRUE(profiler->done());
    profiler->drop_slice();
    EXPECT_FALSE(profiler->done());
    // Only the last slice can be dropped.
    profiler->drop_slice();
    EXPECT_LE(run_to_end(*profiler), 9);
    EXPECT_TRUE(profiler->done());
    EXPECT_EQ(profiler->figures().size(), figures.size());
    // Every sample once dropped: each stage goes back over its own border only.
    const auto second = machine.profiler(options);
    bool drop = false;
    int n = 0;
    for (; !second->done() && n < kSlicesMax; ++n) {
        ASSERT_TRUE(second->run_slice());
        if (std::exchange(drop, !drop)) {
            second->drop_slice();
        }
    }
    EXPECT_LT(n, kSlicesMax);
    EXPECT_EQ(second->figures().size(), figures.size());
}

TEST(Profiler, RefusesToMeasureCachesInsteadOfMemory) {
    Machine machine;
    ProfilerOptions options = small();
    options.cache_bytes = 17 * kMiB;
    const auto made = Profiler::create(machine.pool, machine.kernels, machine.clock, options);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::kOutOfMemory);
}

/// The engine's part in it.
struct Idle {
    explicit Idle(const TinyFixture& fixture) {
        auto made =
            runtime::Compute::create(*fixture.model().model,
                                     {.threads = 2},
                                     {.sequences = 1, .context = 32, .rows = 8, .outputs = 1});
        EXPECT_TRUE(made) << made.error().message;
        compute = std::move(*made);
    }
    /// Slices until it ends.
    int run(runtime::IdleProfiler& profiler) const {
        int n = 1;
        while (profiler.run_slice(*compute) && n < kSlicesMax) {
            ++n;
        }
        return n;
    }
    std::unique_ptr<runtime::Compute> compute;
};

TEST(IdleProfiler, StoresAProfileOnceAndHasNothingToDoTheNextTime) {
    const TinyFixture fixture;
    const Idle idle(fixture);
    const TempDir folder;
    const SteppingClock clock(std::chrono::milliseconds(10));
    runtime::IdleProfiler first(*fixture.model().model, folder.path("p"), clock, small());
    EXPECT_GT(idle.run(first), 20);
    const std::string key =
        runtime::hardware_key(runtime::detect_hardware(idle.compute->kernels(), 2));
    const auto stored = runtime::load_profile(folder.path("p"), key);
    ASSERT_TRUE(stored.profile) << stored.reason;
    EXPECT_EQ(stored.profile->measured_at, "2026-01-31");
    EXPECT_FALSE(stored.profile->ops.empty());
    runtime::IdleProfiler second(*fixture.model().model, folder.path("p"), clock, small());
    EXPECT_EQ(idle.run(second), 1);

    // Another model's type is missing: only that is measured.
    scheduler::HardwareProfile without = *stored.profile;
    const std::string type = without.ops[0].type;
    std::erase_if(without.ops, [&](const auto& rate) { return rate.type == type; });
    without.cpu_read_gbps = 123.0;
    ASSERT_TRUE(runtime::store_profile(folder.path("p"), without));
    runtime::IdleProfiler third(*fixture.model().model, folder.path("p"), clock, small());
    EXPECT_GT(idle.run(third), 5);
    const auto again = runtime::load_profile(folder.path("p"), key);
    ASSERT_TRUE(again.profile) << again.reason;
    EXPECT_EQ(again.profile->cpu_read_gbps, 123.0);
    EXPECT_TRUE(std::any_of(again.profile->ops.begin(),
                            again.profile->ops.end(),
                            [&](const auto& rate) { return rate.type == type; }));
}

TEST(IdleProfiler, EndsQuietlyWhereNothingCanBeKept) {
    const TinyFixture fixture;
    const Idle idle(fixture);
    const SteppingClock clock(std::chrono::milliseconds(10));
    runtime::IdleProfiler nowhere(*fixture.model().model, "", clock, small());
    EXPECT_EQ(idle.run(nowhere), 1);
    nowhere.drop_slice();
    const TempDir folder;
    const std::string file = folder.write("file", "x");
    runtime::IdleProfiler unwritable(*fixture.model().model, file + "/p", clock, small());
    EXPECT_GT(idle.run(unwritable), 20);
    ProfilerOptions impossible = small();
    impossible.cache_bytes = 1024 * kMiB;
    runtime::IdleProfiler too_small(*fixture.model().model, folder.path("p"), clock, impossible);
    EXPECT_EQ(idle.run(too_small), 1);
    EXPECT_FALSE(std::filesystem::exists(folder.path("p")));
}

}  // namespace
}  // namespace ballast::test
