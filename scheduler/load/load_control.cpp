// SPDX-License-Identifier: MIT
// Levels, budget and shares from the filtered samples.
#include "scheduler/load/load_control.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace ballast::scheduler {

namespace {

// Less room by this share of the cap is pressure even where nothing of ours has to go, and more by
// as much is relief.
constexpr double kPressureShare = 0.05;
constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

bool differs(const LoadDirective& a, const LoadDirective& b) {
    return a.level != b.level || a.use_device != b.use_device || a.budget_bytes != b.budget_bytes ||
           a.device_share != b.device_share || a.link_share != b.link_share ||
           a.cpu_share != b.cpu_share;
}

std::string of_whom(const std::string& process) {
    return process.empty() ? std::string("other programs") : process;
}

}  // namespace

const char* load_level_name(LoadLevel level) {
    switch (level) {
        case LoadLevel::kFull:
            return "full";
        case LoadLevel::kPolite:
            return "polite";
        case LoadLevel::kMinimal:
            return "minimal";
        case LoadLevel::kPaused:
            return "paused";
        case LoadLevel::kDegraded:
            return "degraded";
    }
    return "";
}

LoadControl::LoadControl(const LoadRules& rules)
    : rules_(rules),
      filter_(rules.filter),
      backoff_(rules.growth),
      retry_wait_(rules.retry_least),
      room_(rules.memory.cap_bytes) {
    directive_.budget_bytes = rules.memory.cap_bytes;
}

std::uint64_t LoadControl::room_bytes() const {
    DeviceMemory memory = rules_.memory;
    memory.total_bytes = filter_.view().total_bytes;
    return memory.room(filter_.view().others_bytes);
}

bool LoadControl::without_work(Nanoseconds now, Nanoseconds since) const {
    return now - last_work_ >= since;
}

void LoadControl::note_room(Nanoseconds now) {
    const std::uint64_t room = room_bytes();
    const auto fallen = static_cast<double>(room_) - static_cast<double>(room);
    const double counts = kPressureShare * static_cast<double>(rules_.memory.cap_bytes);
    if (room < resident_ || fallen > counts) {
        backoff_.pressure();
        const double changed = static_cast<double>(room) - static_cast<double>(low_room_);
        if (!low_since_ || std::abs(changed) > counts) {
            low_since_ = now;
        }
        low_room_ = room;
        gave_up_idle_ = gave_up_idle_ || (without_work(now, rules_.idle_after) && room < resident_);
        room_ = room;
    } else if (-fallen > counts) {
        backoff_.relief(now);
        room_ = room;
    } else {
        backoff_.quiet(now);  // small losses and gains add up until they count
    }
}

void LoadControl::observe(Nanoseconds now, const LoadSample& sample) {
    if (sample.time > now) {
        return;  // after it, all that are right would be late
    }
    switch (sample.event) {
        case LoadEvent::kNone:
            break;
        case LoadEvent::kSuspend:
            suspended_ = true;
            break;
        case LoadEvent::kResume:
            suspended_ = false;
            last_work_ = now;  // nobody was idle while the computer slept
            break;
        case LoadEvent::kDeviceLost:
            device_lost(now);
            break;
    }
    filter_.add(sample);
    process_ = sample.process;
    note_room(now);
}

void LoadControl::working(Nanoseconds now) {
    last_work_ = now;
    gave_up_idle_ = false;
}

void LoadControl::pause() {
    paused_ = true;
}

void LoadControl::resume(Nanoseconds now) {
    paused_ = false;
    last_work_ = now;
}

void LoadControl::device_lost(Nanoseconds now) {
    if (lost_at_) {
        return;
    }
    const bool again = back_at_ && now - *back_at_ < rules_.retry_most;
    retry_wait_ = again ? std::min(2 * retry_wait_, rules_.retry_most) : rules_.retry_least;
    lost_at_ = now;
    resident_ = 0;
}

void LoadControl::device_back(Nanoseconds now) {
    if (lost_at_) {
        lost_at_.reset();
        back_at_ = now;
    }
}

bool LoadControl::may_retry(Nanoseconds now) const {
    return lost_at_ && !suspended_ && now - *lost_at_ >= retry_wait_;
}

LoadDirective LoadControl::judge(Nanoseconds now) const {
    const LoadView& view = filter_.view();
    LoadDirective made;
    made.link_share = view.link_share;
    made.cpu_share = view.cpu_share;
    const auto without_device = [&](LoadLevel level, std::string reason) {
        made.level = level;
        made.reason = std::move(reason);
        made.use_device = false;
        made.budget_bytes = 0;
    };
    if (paused_) {
        without_device(LoadLevel::kPaused, "Paused by the user; the CPU alone answers.");
        return made;
    }
    if (suspended_) {
        without_device(LoadLevel::kPaused, "The computer sleeps.");
        return made;
    }
    if (lost_at_) {
        without_device(LoadLevel::kDegraded,
                       fmt::format("The device was lost; it is tried again after {:.0f} s.",
                                   to_seconds(retry_wait_)));
        return made;
    }
    made.budget_bytes = room_bytes();
    if (gave_up_idle_ || without_work(now, rules_.idle_release)) {
        made.budget_bytes = 0;
        made.reason = gave_up_idle_ ? "Nothing runs, and others want the device's memory."
                                    : "Nothing has run for a while; the device's memory is free.";
    }
    const bool saves = view.on_battery && rules_.polite_on_battery;
    made.device_share = view.device_share * (saves ? rules_.polite_share : 1.0);
    const bool crowded = view.device_share < rules_.minimal_below;
    if (crowded || (rules_.memory.cap_bytes > 0 && room_bytes() == 0)) {
        made.level = LoadLevel::kMinimal;
        made.use_device = false;  // what is there stays: moving work copies nothing
        made.reason = fmt::format("The device{} {}.",
                                  crowded ? " is busy for" : "'s memory is taken by",
                                  of_whom(process_));
    } else if (room_bytes() < rules_.memory.cap_bytes) {
        made.level = LoadLevel::kPolite;
        made.reason = fmt::format("Of the device's memory {:.1f} GiB are left beside {}.",
                                  static_cast<double>(room_bytes()) / kGib,
                                  of_whom(process_));
    } else if (view.device_share < 1.0) {
        made.level = LoadLevel::kPolite;
        made.reason = fmt::format("{:.0f}% of the device's time are left beside {}.",
                                  100.0 * view.device_share,
                                  of_whom(process_));
    } else if (made.link_share < 1.0 || made.cpu_share < 1.0) {
        made.level = LoadLevel::kPolite;
        made.reason = fmt::format("The {} for {}.",
                                  made.link_share < 1.0 ? "device's link is busy" : "CPU is busy",
                                  of_whom(process_));
    } else if (saves) {
        made.level = LoadLevel::kPolite;
        made.reason = "The computer runs on its battery.";
    }
    return made;
}

const LoadDirective& LoadControl::directive(Nanoseconds now) {
    LoadDirective next = judge(now);
    next.version = directive_.version + (differs(next, directive_) ? 1 : 0);
    directive_ = std::move(next);
    return directive_;
}

std::uint64_t LoadControl::growth(Nanoseconds now, std::uint64_t resident, std::uint64_t wanted) {
    resident_ = resident;
    const std::uint64_t most = std::min(wanted, growth_limit(now));
    return most > resident ? backoff_.affordable(now, most - resident, rules_.memory.cap_bytes) : 0;
}

std::uint64_t LoadControl::growth_limit(Nanoseconds now) {
    const LoadDirective& holds = directive(now);
    if (!holds.use_device) {
        return 0;
    }
    if (backoff_.is_over(now)) {
        return holds.budget_bytes;
    }
    const bool settled = low_since_ && now - *low_since_ >= rules_.growth.wait_least;
    return settled ? std::min(low_room_, holds.budget_bytes) : 0;
}

void LoadControl::grew(Nanoseconds now, std::uint64_t bytes, double cost_seconds) {
    resident_ += bytes;
    backoff_.grew(now, bytes, rules_.memory.cap_bytes, cost_seconds);
}

void LoadControl::gained(double seconds, double without_seconds) {
    if (without_seconds > seconds && seconds > 0.0) {
        backoff_.gained(seconds * (1.0 - seconds / without_seconds));
    }
}

}  // namespace ballast::scheduler
