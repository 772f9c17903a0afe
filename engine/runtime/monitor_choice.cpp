// SPDX-License-Identifier: MIT
// Names of monitors, and the reading of a script's file.
#include "engine/runtime/monitor_choice.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "engine/base/mapped_file.h"
#include "engine/runtime/device_choice.h"

namespace ballast::runtime {

namespace {

constexpr std::string_view kScript = "script:";

tl::unexpected<Error> wrong(const std::string& what) {
    return fail(ErrorCode::kInvalidRequest, "engine.gpu_monitor: " + what);
}

}  // namespace

Result<std::vector<scheduler::LoadSample>> read_monitor_script(const EngineOptions& options) {
    const std::string_view name = options.gpu_monitor;
    if (name.empty() || name == "none") {
        return std::vector<scheduler::LoadSample>();
    }
    if (!name.starts_with(kScript) || name.size() == kScript.size()) {
        return wrong(fmt::format("\"{}\" is no monitor; possible are none and script:FILE", name));
    }
    const std::string path(name.substr(kScript.size()));
    const auto file = MappedFile::open(path);
    if (!file) {
        return wrong(file.error().message);
    }
    const std::span<const std::byte> bytes = (*file)->bytes();
    const std::string_view text(static_cast<const char*>(static_cast<const void*>(bytes.data())),
                                bytes.size());
    auto samples = scheduler::parse_sample_script(text);
    if (!samples) {
        return wrong(fmt::format("{}: {}", path, samples.error().message));
    }
    if (samples->empty()) {
        return wrong(path + " holds no sample");
    }
    for (scheduler::LoadSample& sample : *samples) {
        if (sample.device_total_bytes == 0) {
            sample.device_total_bytes = device_budget(options);
            sample.others_bytes = std::min(sample.others_bytes, sample.device_total_bytes);
        }
    }
    return samples;
}

std::function<backend::HostTruth()> host_truth(const scheduler::SampleScript& script,
                                               const Clock& clock) {
    return [&script, &clock]() -> backend::HostTruth {
        const Nanoseconds now = clock.now();
        const auto sample = script.at(now);
        if (!sample) {
            return {.left_bytes = std::numeric_limits<std::uint64_t>::max()};
        }
        return {.left_bytes = sample->device_total_bytes - sample->others_bytes,
                .n_losses = script.n_events(scheduler::LoadEvent::kDeviceLost, now)};
    };
}

}  // namespace ballast::runtime
