// SPDX-License-Identifier: MIT
// `ballast profile`: measures this machine for the planner and stores what it finds.
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "config/load.h"
#include "engine/base/clock.h"
#include "engine/base/thread_pool.h"
#include "engine/runtime/compute.h"
#include "engine/runtime/device_choice.h"
#include "engine/runtime/loaded_model.h"
#include "engine/runtime/profile_file.h"
#include "engine/runtime/profiler.h"
#include "scheduler/profile/profile_store.h"
#include "server/cli/commands.h"
#include "server/cli/report.h"

namespace ballast::cli {

namespace {

/// Works it off, with a line on stderr for each thing that is measured.
Status measure(runtime::Profiler& profiler) {
    std::string said;
    while (!profiler.done()) {
        if (const std::string now = profiler.doing(); now != said) {
            said = now;
            fmt::print(stderr, "{:>3.0f}% {}\n", 100.0 * profiler.progress(), said);
        }
        BALLAST_TRY_STATUS(profiler.run_slice());
    }
    return {};
}

void print_table(const runtime::Profiler& profiler, const scheduler::HardwareProfile& profile) {
    fmt::print("{}, {:.1f} GB{}\n\n",
               profile.description,
               profile.ram_gb,
               profile.has_device ? "" : "; no device besides the CPU");
    fmt::print("{:<36}{:>10}  {:<8}{}\n", "", "median", "", "spread");
    for (const runtime::Figure& figure : profiler.figures()) {
        fmt::print("{:<36}{:>10.1f}  {:<8}{:.1f} to {:.1f}\n",
                   figure.name,
                   figure.median,
                   figure.unit,
                   figure.low,
                   figure.high);
    }
    if (const int n = profiler.n_disturbed(); n > 0) {
        fmt::print("{} samples were taken again, because their threads had to share their cores.\n",
                   n);
    }
}

Status write_copy(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file.good()) {
        return fail(ErrorCode::kIo, fmt::format("Cannot write {}.", path));
    }
    return {};
}

Status run(const ProfileArgs& args, const config::Environment& environment) {
    BALLAST_TRY(const config::Loaded settings, config::load({"", environment, args.overrides}));
    const runtime::EngineOptions& engine = settings.config.engine;
    BALLAST_TRY(const kernels::KernelTable* kernels, kernels::choose_kernels(engine.force_isa));
    BALLAST_TRY(const int n_threads, runtime::compute_threads(engine));
    BALLAST_TRY(const bool with_device, runtime::wants_device(engine));
    std::optional<runtime::LoadedModel> model;
    if (!args.model.empty()) {
        BALLAST_TRY(model, runtime::load_model(args.model, ""));
    }
    ThreadPool pool(n_threads);
    const SystemClock clock;
    runtime::HardwareFacts facts = runtime::detect_hardware(*kernels, n_threads);
    runtime::ProfilerOptions options{.formats = runtime::default_formats()};
    std::unique_ptr<backend::Backend> device;
    if (with_device) {
        device = runtime::make_device(engine, *kernels, clock, n_threads);
        facts.devices = {device->name()};
        options.device = device.get();
        options.device_bytes = runtime::device_budget(engine);
    }
    if (model) {
        options.formats = runtime::formats_of(*model->model);
        options.attention = runtime::attention_of(*model->model);
    }
    BALLAST_TRY(const auto profiler,
                runtime::Profiler::create(pool, *kernels, clock, std::move(options)));
    BALLAST_TRY_STATUS(measure(*profiler));
    if (model && model->reader->file().failed()) {
        return fail(ErrorCode::kIo, fmt::format("{} was cut while it was read.", args.model));
    }
    scheduler::HardwareProfile profile = runtime::empty_profile(facts, clock.unix_seconds());
    const std::string folder = config::profile_folder(environment);
    // Types that another model had measured stay.
    if (auto stored = runtime::load_profile(folder, profile.key); stored.profile) {
        profile.ops = std::move(stored.profile->ops);
    }
    profiler->fill(profile);
    const std::string text = scheduler::write_hardware(profile);
    if (args.json) {
        fmt::print("{}", text);
    } else {
        print_table(*profiler, profile);
    }
    if (!args.out.empty()) {
        BALLAST_TRY_STATUS(write_copy(args.out, text));
    }
    if (const Status stored = runtime::store_profile(folder, profile); !stored) {
        fmt::print(
            stderr, "The profile is not kept: {}.\n", printable(stored.error().message, 512));
    } else if (!args.json) {
        fmt::print("\nStored in {}\n", printable(runtime::profile_path(folder, profile.key), 4096));
    }
    return {};
}

}  // namespace

int profile(const ProfileArgs& args, const config::Environment& environment) {
    const Status status = run(args, environment);
    return status ? kExitSuccess : report(status.error());
}

}  // namespace ballast::cli
