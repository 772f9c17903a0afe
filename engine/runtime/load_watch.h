// SPDX-License-Identifier: MIT
// Looks at what others want of the computer and gives the rules' directive: asked by the engine
// before each step and now and then while it idles. It decides nothing itself and moves nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/clock.h"
#include "scheduler/load/load_control.h"
#include "scheduler/load/monitor.h"
#include "scheduler/load/pauses.h"

namespace ballast::runtime {

/// Why the device is given back; the names are the metrics'.
enum class LoadCause {
    kMemory,            // others have taken it
    kBusy,              // others keep the device busy
    kPaused,            // somebody asked for it
    kSuspended,         // the computer goes to sleep
    kIdle,              // nothing runs
    kLost,              // the device does not work any more
    kFailedSubmission,  // it took no work
    kFailedAllocation,  // it had no memory although there should have been some
};
constexpr int kLoadCauses = 8;
constexpr const char* load_cause_name(LoadCause cause) {
    switch (cause) {
        case LoadCause::kMemory:
            return "memory";
        case LoadCause::kBusy:
            return "busy";
        case LoadCause::kPaused:
            return "paused";
        case LoadCause::kSuspended:
            return "suspended";
        case LoadCause::kIdle:
            return "idle";
        case LoadCause::kLost:
            return "device_lost";
        case LoadCause::kFailedSubmission:
            return "failed_submission";
        case LoadCause::kFailedAllocation:
            return "failed_allocation";
    }
    return "";
}

/// Engine thread. What it is made of outlives it.
class LoadWatch {
  public:
    struct Setup {
        scheduler::LoadRules rules = {};
        scheduler::GpuMonitor* monitor = nullptr;   // null: nobody else is there
        const scheduler::Pauses* pauses = nullptr;  // null: nobody can ask for one
    };
    explicit LoadWatch(const Setup& setup);

    /// A step begins.
    void working(Nanoseconds now);
    /// What holds now. The monitor is asked if work is at hand or it is time; `held_bytes` are ours
    /// on the device.
    const scheduler::LoadDirective& look(Nanoseconds now, std::uint64_t held_bytes);

    scheduler::LoadControl& control() { return control_; }
    const scheduler::LoadControl& control() const { return control_; }
    /// Why a directive that was given leaves less than is held.
    LoadCause cause() const;
    /// Whom the last sample names; "others" if it names nobody.
    std::string whom() const;

  private:
    void ask(Nanoseconds now);

    Setup setup_;
    scheduler::LoadControl control_;
    scheduler::LoadDirective directive_;
    std::optional<Nanoseconds> asked_ = {};
    Nanoseconds last_work_{0};
    bool works_ = true;
    bool paused_ = false;
    std::string process_ = {};
};

}  // namespace ballast::runtime
