// SPDX-License-Identifier: MIT
// Samples as text: recordings, demonstrations and the simulator's traces. One JSON object a line:
//   {"t_ms": 1500, "others_bytes": 4294967296, "device_busy": 0.7, "process": "game"}
// Keys: t_ms (needed, not decreasing), device_total_bytes, others_bytes, device_busy, link_busy,
// cpu_psi, on_battery, event (null, "suspend", "resume", "device_lost"), process (null or a name).
// A value holds until a later line names it; an event holds for its line only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "scheduler/load/monitor.h"

namespace ballast::scheduler {

/// Empty lines count as nothing. kInvalidRequest naming line, key and remedy: not JSON, an unknown
/// key, a value out of range, time that runs backwards, more than a million lines.
Result<std::vector<LoadSample>> parse_sample_script(std::string_view text);

/// What parse_sample_script() reads back as the same samples, each value only where it changes.
/// Times are rounded to microseconds.
std::string write_sample_script(std::span<const LoadSample> samples);

/// Plays samples in time.
class SampleScript final : public GpuMonitor {
  public:
    /// `begin`: the time of the script's zero. The samples are in order of time.
    explicit SampleScript(std::vector<LoadSample> samples, Nanoseconds begin = Nanoseconds{0});

    /// What the last line says whose time has come, as of now; nothing before the first. No event
    /// is passed over: of several lines that have come, one with an event is given by itself, and
    /// what follows it by the next call.
    std::optional<LoadSample> sample(Nanoseconds now) override;

    /// When the next one is due; nothing after the last.
    std::optional<Nanoseconds> next_time() const;

    /// What holds at a time, whatever was given by sample(): the truth of the device that a script
    /// is about. Nothing before the first. These two from any thread.
    std::optional<LoadSample> at(Nanoseconds time) const;
    /// How often this has happened until then.
    std::uint64_t n_events(LoadEvent event, Nanoseconds until) const;

  private:
    std::vector<LoadSample> samples_;  // with the scheduler's time
    std::size_t next_ = 0;             // those before have been given
};

}  // namespace ballast::scheduler
