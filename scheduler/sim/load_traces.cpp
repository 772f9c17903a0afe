// SPDX-License-Identifier: MIT
// Each trace is a few samples; a value holds until the next one.
#include "scheduler/sim/load_traces.h"

#include <fmt/format.h>

#include "engine/base/rng.h"

namespace ballast::scheduler {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kMib = 1ULL << 20U;

LoadSample pulse_at(Nanoseconds time, const LoadPulse& pulse, const char* process) {
    return {.time = time,
            .others_bytes = pulse.bytes,
            .device_busy = pulse.device_busy,
            .link_busy = pulse.link_busy,
            .process = process};
}

LoadTrace between(const char* name, Nanoseconds end, LoadSample sample, Nanoseconds duration) {
    return {.name = name, .duration = duration, .samples = {{}, std::move(sample), {.time = end}}};
}

LoadTrace browser() {
    LoadTrace trace{.name = "browser", .duration = seconds(90), .samples = {{}}};
    for (int i = 1; i <= 10; ++i) {
        const auto taken = static_cast<std::uint64_t>(i) * 150 * kMib;
        const LoadSample idle{.time = seconds(5 * i), .others_bytes = taken, .process = "browser"};
        LoadSample loads = idle;
        loads.device_busy = 0.15;
        loads.cpu_psi = 0.2;
        trace.samples.push_back(loads);
        trace.samples.push_back(idle);
        trace.samples.back().time += seconds(1);
    }
    trace.samples.push_back({.time = seconds(65)});
    return trace;
}

LoadTrace compositor() {
    LoadTrace trace{.name = "compositor", .duration = seconds(60), .samples = {{}}};
    for (int i = 0; i < 100; ++i) {
        const Nanoseconds begin = seconds(5) + milliseconds(500 * i);
        trace.samples.push_back({.time = begin, .device_busy = 0.3, .process = "compositor"});
        trace.samples.push_back({.time = begin + milliseconds(50)});
    }
    return trace;
}

LoadTrace with_event(const char* name, LoadEvent event, Nanoseconds slept) {
    LoadTrace trace{.name = name, .duration = seconds(60), .samples = {{}}};
    trace.samples.push_back({.time = seconds(20), .event = event});
    if (slept > Nanoseconds{0}) {
        trace.samples.push_back({.time = seconds(20) + slept, .event = LoadEvent::kResume});
    }
    return trace;
}

}  // namespace

std::vector<LoadTrace> load_traces() {
    return {between("game", seconds(70), pulse_at(seconds(10), {}, "game"), seconds(100)),
            browser(),
            between("compile",
                    seconds(70),
                    {.time = seconds(10), .cpu_psi = 0.6, .process = "compiler"},
                    seconds(90)),
            compositor(),
            between("battery", seconds(60), {.time = seconds(10), .on_battery = true}, seconds(90)),
            with_event("suspend", LoadEvent::kSuspend, seconds(10)),
            with_event("device_lost", LoadEvent::kDeviceLost, Nanoseconds{0})};
}

LoadTrace pulse_trace(int per_minute,
                      Nanoseconds length,
                      Nanoseconds duration,
                      const LoadPulse& pulse) {
    const Nanoseconds period = Nanoseconds(seconds(60)) / per_minute;
    LoadTrace trace{
        .name = fmt::format("{} pulses a minute of {:g} s", per_minute, to_seconds(length)),
        .duration = duration,
        .samples = {{}}};
    for (Nanoseconds begin = period / 2; begin < duration; begin += period) {
        trace.samples.push_back(pulse_at(begin, pulse, "pulse"));
        trace.samples.push_back({.time = begin + length});
    }
    return trace;
}

LoadTrace square_trace(Nanoseconds period, Nanoseconds duration, const LoadPulse& pulse) {
    LoadTrace trace{.name = fmt::format("square wave of {:g} s", to_seconds(period)),
                    .duration = duration,
                    .samples = {{}}};
    for (Nanoseconds begin = period / 2; begin < duration; begin += period) {
        trace.samples.push_back(pulse_at(begin, pulse, "square wave"));
        trace.samples.push_back({.time = begin + period / 2});
    }
    return trace;
}

LoadTrace busy_trace(std::uint64_t seed, Nanoseconds duration) {
    constexpr std::array<double, 5> kLeft = {1.0, 0.7, 0.5, 0.3, 0.15};
    Rng rng(seed);
    LoadTrace trace{.name = "busy device", .duration = duration};
    for (Nanoseconds time{0}; time < duration; time += seconds(8)) {
        trace.samples.push_back(
            {.time = time, .device_busy = 1.0 - kLeft[rng.below(kLeft.size())]});
    }
    return trace;
}

}  // namespace ballast::scheduler
