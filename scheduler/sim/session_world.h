// SPDX-License-Identifier: MIT
// One stream's decode steps in a row on a simulated machine while a load trace plays: what is in
// device memory, what crosses the link, what a step takes. What is to be done about the load is
// decided elsewhere (sim_session.h). Every figure is simulated.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "scheduler/load/load_control.h"
#include "scheduler/placement/residency.h"
#include "scheduler/share_rule.h"
#include "scheduler/sim/load_truth.h"
#include "scheduler/sim/step_times.h"

namespace ballast::scheduler {

/// State at the end of a tenth of a second, and the tokens made in it.
struct TimelinePoint {
    Nanoseconds time{0};
    double tokens = 0.0;
    std::uint64_t room_bytes = 0;
    std::uint64_t resident_bytes = 0;
    LoadLevel level = LoadLevel::kFull;
};
constexpr Nanoseconds kTimelineStep = std::chrono::milliseconds(100);

struct SessionStep {
    Nanoseconds begin{0};
    Nanoseconds end{0};
};

struct SessionResult {
    double tokens = 0.0;
    double uploaded_bytes = 0.0;
    int n_plans = 0;
    /// The longest time in which more was ours on the device than there was room for.
    Nanoseconds over_room{0};
    /// A request is lost if its program cannot go on without what the device held.
    int n_requests_lost = 0;
    int n_steps_redone = 0;
    std::vector<TimelinePoint> timeline = {};
    std::vector<SessionStep> steps = {};
};

/// Asked in the middle of a step.
class SessionWatcher {
  public:
    virtual ~SessionWatcher() = default;
    /// When it wants to be asked next; nothing: never.
    virtual std::optional<Nanoseconds> next_poll() const = 0;
    virtual void poll() = 0;
};

class SessionWorld;

/// What has changed of a world.
enum class WorldEvent {
    kTime,
    kKept,
    kExecuted,
    kUpload,     // begins
    kCancelled,  // an upload, before all of it has arrived
    kArrived,
    kWiped,
};

/// Told after each change, so that rules can be checked at every event.
class WorldObserver {
  public:
    virtual ~WorldObserver() = default;
    virtual void changed(const SessionWorld& world, WorldEvent event) = 0;
};

/// Every change of what is kept stalls all for kChangeStall, and so does the beginning of an
/// upload. What is kept takes room until the stall that drops it has ended. What of it has no room
/// is read over the link, as a driver does that moves it to RAM. Virtual is what a rule orders: a
/// test may carry it out wrongly.
class SessionWorld : public ShareKeeper {
  public:
    /// What is on its way.
    struct Arriving {
        ResidencyGrowth growth = {};
        double link_bytes = 0.0;  // until it has arrived, from the upload's beginning
    };

    SessionWorld(StepTimes& times,
                 const Residency& residency,
                 const KvReserve& reserve,
                 std::vector<LoadTruth> truths,
                 Nanoseconds duration);
    ~SessionWorld() override = default;
    SessionWorld(const SessionWorld&) = delete;
    SessionWorld& operator=(const SessionWorld&) = delete;

    /// From now on; nullptr: nobody.
    void tell(WorldObserver* observer) { observer_ = observer; }
    Nanoseconds now() const { return now_; }
    bool ended() const { return now_ >= duration_; }
    const LoadTruth& truth() const { return truths_[truth_]; }
    const Placement& kept() const override { return kept_; }
    const Placement& executed() const override { return executed_; }
    /// Whether what is executed is running now.
    bool in_step() const { return in_step_; }
    bool uploading() const override { return !upload_.empty(); }
    std::span<const Arriving> in_flight() const { return upload_; }
    /// Counts up whenever something has arrived or was lost.
    int n_changes() const override { return n_changes_; }
    /// Of what is kept, executed and on its way; and with what is being freed.
    std::uint64_t held_bytes() const override;
    std::uint64_t resident_bytes() const { return held_bytes() + freed_bytes_; }
    SessionResult& result() { return result_; }
    const SessionResult& result() const { return result_; }
    void show(LoadLevel level) { level_ = level; }

    /// What is there at the beginning costs nothing.
    void begin_with(const Placement& placement);
    /// Only these residents stay; of an upload, what has arrived before.
    void keep(const Placement& kept) override;
    void execute(const Placement& executed) override;
    /// Begins after the stall that it brings. What has arrived is kept from the next step on. None
    /// may be under way.
    void upload(const std::vector<ResidencyGrowth>& growth) override;
    void cancel_upload() override;

    /// Nothing runs until the computer is awake and the stall over. To be called before a step.
    void wait_until_awake();
    /// Nothing runs until then.
    void wait(Nanoseconds until, SessionWatcher* watcher);
    /// One step, or what of it is before the end. Seconds of it; nothing if it did not end, or has
    /// to be done again because the device failed.
    std::optional<double> run_step(SessionWatcher* watcher);

  protected:
    /// So long what is dropped may still be read.
    virtual Nanoseconds read_after_drop() const { return kChangeStall; }

  private:
    SimConditions conditions() const;
    std::optional<double> step(SessionWatcher* watcher);
    void drop(std::uint64_t bytes_before);
    void has_changed(WorldEvent event) const;
    double upload_left() const;
    double upload_rate() const;
    Nanoseconds upload_end() const;
    Nanoseconds next_change(SessionWatcher* watcher) const;
    void advance(Nanoseconds to);
    void note_bins(Nanoseconds to);
    void count_tokens(Nanoseconds begin, Nanoseconds end, double tokens);
    void adopt();
    void wipe();
    double link_bytes(const ResidencyGrowth& growth) const;

    StepTimes& times_;
    const Residency& residency_;
    KvReserve reserve_;
    std::vector<LoadTruth> truths_;
    Nanoseconds duration_;
    Nanoseconds now_{0};
    std::size_t truth_ = 0;
    Placement kept_;
    Placement executed_;
    std::vector<Arriving> upload_ = {};
    std::uint64_t upload_reserved_ = 0;
    double uploaded_ = 0.0;  // of this upload, over the link
    Nanoseconds stalled_until_{0};
    std::uint64_t freed_bytes_ = 0;  // when the stall ends
    bool in_step_ = false;
    Nanoseconds over_since_{-1};
    int n_changes_ = 0;
    std::uint64_t n_replays_ = 0;
    LoadLevel level_ = LoadLevel::kFull;
    mutable std::optional<std::uint64_t> resident_ = {};
    SessionResult result_;
    WorldObserver* observer_ = nullptr;
};

}  // namespace ballast::scheduler
