// SPDX-License-Identifier: MIT
// The rules of reaction: what of the device Ballast may use now, and why. Shrink at once, grow
// slowly. Pure logic; whoever executes tells it what happened.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "scheduler/load/device_memory.h"
#include "scheduler/load/growth_backoff.h"
#include "scheduler/load/load_filter.h"

namespace ballast::scheduler {

/// What people see.
enum class LoadLevel {
    kFull,      // nobody else wants anything of the device
    kPolite,    // others work, or it runs on battery: less of the device
    kMinimal,   // others leave so little that the CPU does the work
    kPaused,    // somebody asked for it: the device is given back
    kDegraded,  // the device cannot be used
};
const char* load_level_name(LoadLevel level);

struct LoadRules {
    DeviceMemory memory = {};  // the total is the samples' affair
    bool polite_on_battery = true;
    double polite_share = 0.5;    // of the device's time, on battery
    double minimal_below = 0.05;  // a smaller share of the device is not worth its hops
    /// Without work for so long the device's memory is given back; without work for the shorter
    /// time all of it as soon as others want any.
    Nanoseconds idle_release = std::chrono::minutes(5);
    Nanoseconds idle_after = std::chrono::seconds(2);
    /// A lost device is tried again after this, and after twice as long each time that it is lost
    /// within the longest wait.
    Nanoseconds retry_least = std::chrono::seconds(1);
    Nanoseconds retry_most = std::chrono::minutes(1);
    LoadFilter::Options filter = {};
    GrowthBackoff::Options growth = {};
};

/// What holds until the next one.
struct LoadDirective {
    LoadLevel level = LoadLevel::kFull;
    std::string reason = {};  // for people; "" at full
    bool use_device = true;
    /// Our bytes on the device may not exceed this: to be met within 200 ms of the sample, or at
    /// the end of the running submission.
    std::uint64_t budget_bytes = 0;
    /// What is left of each for plans.
    double device_share = 1.0;
    double link_share = 1.0;
    double cpu_share = 1.0;
    /// Counts up whenever one of the above but the reason has changed.
    std::uint64_t version = 0;
};

/// The scheduler's thread. Time never runs backwards.
class LoadControl {
  public:
    explicit LoadControl(const LoadRules& rules);

    /// Takes a sample in; late ones, wrong ones and those of the future do no harm.
    void observe(Nanoseconds now, const LoadSample& sample);
    const LoadView& view() const { return filter_.view(); }
    /// For us, by the last good sample.
    std::uint64_t room_bytes() const;
    /// A step begins: there is work.
    void working(Nanoseconds now);
    void pause();
    void resume(Nanoseconds now);
    /// The device failed under us, or could be made to work again.
    void device_lost(Nanoseconds now);
    void device_back(Nanoseconds now);
    /// Whether it is time to try whether a lost device works again.
    bool may_retry(Nanoseconds now) const;
    /// What is ours on the device now; growth() and grew() tell it too.
    void holds(std::uint64_t resident_bytes) { resident_ = resident_bytes; }

    /// Cheap enough for each step; call it while idle too.
    const LoadDirective& directive(Nanoseconds now);

    /// Bytes that may be uploaded now to grow from `resident` towards `wanted`, within the budget.
    std::uint64_t growth(Nanoseconds now, std::uint64_t resident, std::uint64_t wanted);
    /// Up to how many bytes growth may go now: the budget after the wait, what pressure has left
    /// before.
    std::uint64_t growth_limit(Nanoseconds now);
    /// They are on their way; cost: seconds of work lost by it.
    void grew(Nanoseconds now, std::uint64_t bytes, double cost_seconds);
    /// A step of so many seconds would have taken `without_seconds` without what has grown since
    /// the last pressure.
    void gained(double seconds, double without_seconds);

    const GrowthBackoff& backoff() const { return backoff_; }

  private:
    LoadDirective judge(Nanoseconds now) const;
    bool without_work(Nanoseconds now, Nanoseconds since) const;
    void note_room(Nanoseconds now);

    LoadRules rules_;
    LoadFilter filter_;
    GrowthBackoff backoff_;
    LoadDirective directive_;
    bool paused_ = false;
    bool suspended_ = false;
    std::optional<Nanoseconds> lost_at_ = {};
    std::optional<Nanoseconds> back_at_ = {};
    Nanoseconds retry_wait_{0};
    Nanoseconds last_work_{0};
    bool gave_up_idle_ = false;   // all of it, because others wanted some while nothing ran
    std::uint64_t resident_ = 0;  // ours on the device, as last told
    std::uint64_t room_ = 0;      // at the last look
    /// What was left when the room fell last, and since when it has not been less. What fits into
    /// that is not at risk when the same pressure returns.
    std::uint64_t low_room_ = 0;
    std::optional<Nanoseconds> low_since_ = {};
    std::string process_ = {};
};

}  // namespace ballast::scheduler
