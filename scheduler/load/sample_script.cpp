// SPDX-License-Identifier: MIT
// JSON lines in and out, and their samples in time.
#include "scheduler/load/sample_script.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ballast::scheduler {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLinesMax = 1000000;
constexpr std::size_t kProcessBytesMax = 256;
constexpr std::size_t kRowBytesMax = 16384;  // many times what a line can need
// A century in milliseconds; what is later would not fit into nanoseconds much longer.
constexpr double kMillisecondsMax = 3.2e12;
constexpr double kNanosecondsPerMillisecond = 1e6;
// Larger whole numbers are not exact in JSON.
constexpr double kBytesMax = 9007199254740992.0;

struct EventName {
    LoadEvent event;
    const char* name;
};
constexpr std::array<EventName, 3> kEvents = {{{LoadEvent::kSuspend, "suspend"},
                                               {LoadEvent::kResume, "resume"},
                                               {LoadEvent::kDeviceLost, "device_lost"}}};

class LineReader {
  public:
    explicit LineReader(std::size_t line) : line_(line) {}

    /// Changes what the line names.
    Status read(std::string_view text, LoadSample& sample) const {
        if (text.size() > kRowBytesMax) {
            return wrong(fmt::format("has more than {} bytes", kRowBytesMax));
        }
        const Json object = Json::parse(text, nullptr, false);
        if (!object.is_object()) {
            return wrong("is not one JSON object");
        }
        if (!object.contains("t_ms")) {
            return wrong("has no \"t_ms\"");
        }
        sample.event = LoadEvent::kNone;
        for (const auto& [key, value] : object.items()) {
            BALLAST_TRY_STATUS(read_value(key, value, sample));
        }
        if (sample.device_total_bytes > 0 && sample.others_bytes > sample.device_total_bytes) {
            return wrong("has \"others_bytes\" above \"device_total_bytes\"");
        }
        return {};
    }

  private:
    Status wrong(const std::string& what) const {
        return fail(ErrorCode::kInvalidRequest, fmt::format("Line {} {}.", line_, what));
    }

    Status read_value(const std::string& key, const Json& value, LoadSample& sample) const {
        if (key == "t_ms") {
            BALLAST_TRY(const double ms, number(key, value, kMillisecondsMax));
            const Nanoseconds time{std::llround(ms * kNanosecondsPerMillisecond)};
            if (time < sample.time) {
                return wrong("has a \"t_ms\" before that of the line before");
            }
            sample.time = time;
        } else if (key == "device_total_bytes" || key == "others_bytes") {
            BALLAST_TRY(const double bytes, number(key, value, kBytesMax));
            (key == "others_bytes" ? sample.others_bytes : sample.device_total_bytes) =
                static_cast<std::uint64_t>(bytes);
        } else if (key == "device_busy" || key == "link_busy" || key == "cpu_psi") {
            BALLAST_TRY(const double share, number(key, value, 1.0));
            (key == "device_busy" ? sample.device_busy
             : key == "link_busy" ? sample.link_busy
                                  : sample.cpu_psi) = share;
        } else if (key == "on_battery") {
            if (!value.is_boolean()) {
                return wrong("needs true or false for \"on_battery\"");
            }
            sample.on_battery = value.get<bool>();
        } else if (key == "event") {
            return read_event(value, sample);
        } else if (key == "process") {
            return read_process(value, sample);
        } else {
            return wrong(fmt::format(
                "has the unknown key \"{}\"; known are t_ms, device_total_bytes, others_bytes, "
                "device_busy, link_busy, cpu_psi, on_battery, event and process",
                key.substr(0, 64)));
        }
        return {};
    }

    Result<double> number(const std::string& key, const Json& value, double most) const {
        if (value.is_number()) {
            const auto found = value.get<double>();
            if (found >= 0.0 && found <= most) {
                return found;
            }
        }
        return tl::unexpected(
            wrong(fmt::format("needs a number from 0 to {:g} for \"{}\"", most, key)).error());
    }

    Status read_event(const Json& value, LoadSample& sample) const {
        if (value.is_null()) {
            return {};
        }
        for (const EventName& known : kEvents) {
            if (value == known.name) {
                sample.event = known.event;
                return {};
            }
        }
        return wrong("needs null, \"suspend\", \"resume\" or \"device_lost\" for \"event\"");
    }

    Status read_process(const Json& value, LoadSample& sample) const {
        if (value.is_null()) {
            sample.process.clear();
            return {};
        }
        if (!value.is_string() || value.get_ref<const std::string&>().size() > kProcessBytesMax) {
            return wrong(fmt::format("needs null or a name of at most {} bytes for \"process\"",
                                     kProcessBytesMax));
        }
        sample.process = value.get<std::string>();
        return {};
    }

    std::size_t line_;
};

/// What of a sample differs from the one before.
Json changes(const LoadSample& sample, const LoadSample& before) {
    Json line = {{"t_ms", std::round(static_cast<double>(sample.time.count()) / 1e3) / 1e3}};
    const auto put = [&](const char* key, const auto& value, const auto& old) {
        if (value != old) {
            line[key] = value;
        }
    };
    put("device_total_bytes", sample.device_total_bytes, before.device_total_bytes);
    put("others_bytes", sample.others_bytes, before.others_bytes);
    put("device_busy", sample.device_busy, before.device_busy);
    put("link_busy", sample.link_busy, before.link_busy);
    put("cpu_psi", sample.cpu_psi, before.cpu_psi);
    put("on_battery", sample.on_battery, before.on_battery);
    if (sample.process != before.process) {
        line["process"] = sample.process.empty() ? Json() : Json(sample.process);
    }
    for (const EventName& known : kEvents) {
        if (sample.event == known.event) {
            line["event"] = known.name;
        }
    }
    return line;
}

}  // namespace

Result<std::vector<LoadSample>> parse_sample_script(std::string_view text) {
    std::vector<LoadSample> samples;
    LoadSample sample;
    std::size_t line = 0;
    while (!text.empty()) {
        ++line;
        if (line > kLinesMax) {
            return fail(ErrorCode::kInvalidRequest,
                        fmt::format("There are more than {} lines.", kLinesMax));
        }
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view row = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (row.find_first_not_of(" \t\r") == std::string_view::npos) {
            continue;
        }
        BALLAST_TRY_STATUS(LineReader(line).read(row, sample));
        samples.push_back(sample);
    }
    return samples;
}

std::string write_sample_script(std::span<const LoadSample> samples) {
    std::string text;
    LoadSample before;
    for (const LoadSample& sample : samples) {
        text += changes(sample, before).dump(-1, ' ', false, Json::error_handler_t::replace);
        text += '\n';
        before = sample;
    }
    return text;
}

SampleScript::SampleScript(std::vector<LoadSample> samples, Nanoseconds begin)
    : samples_(std::move(samples)) {
    for (LoadSample& sample : samples_) {
        sample.time += begin;
    }
}

std::optional<LoadSample> SampleScript::sample(Nanoseconds now) {
    bool event = false;
    while (!event && next_ < samples_.size() && samples_[next_].time <= now) {
        event = samples_[next_++].event != LoadEvent::kNone;
    }
    if (next_ == 0) {
        return std::nullopt;
    }
    LoadSample sample = samples_[next_ - 1];
    sample.time = now;
    if (!event) {
        sample.event = LoadEvent::kNone;
    }
    return sample;
}

std::optional<LoadSample> SampleScript::at(Nanoseconds time) const {
    const auto after = std::upper_bound(
        samples_.begin(), samples_.end(), time, [](Nanoseconds moment, const LoadSample& sample) {
            return moment < sample.time;
        });
    return after == samples_.begin() ? std::nullopt : std::optional(*std::prev(after));
}

std::uint64_t SampleScript::n_events(LoadEvent event, Nanoseconds until) const {
    return static_cast<std::uint64_t>(
        std::count_if(samples_.begin(), samples_.end(), [&](const LoadSample& sample) {
            return sample.event == event && sample.time <= until;
        }));
}

std::optional<Nanoseconds> SampleScript::next_time() const {
    if (next_ == samples_.size()) {
        return std::nullopt;
    }
    return samples_[next_].time;
}

}  // namespace ballast::scheduler
