// SPDX-License-Identifier: MIT
// What must be true at every event of a seeded run, checked from outside: from what the world shows
// and what the monitor has told, never from what the rules believe.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/load/monitor.h"
#include "scheduler/sim/session_world.h"

namespace ballast::scheduler {

enum class Invariant {
    kBudgetIsMet,       // within 200 ms of the sample that tells
    kExecutesResident,  // nothing absent or still on its way is used
    kCopiesFit,         // an upload begins only into room that was told, and alone
    kRequestsEnd,       // every accepted one, with its tokens
    kMovesBounded,      // of one group, and of all together
    kFreeIsUnread,      // memory is free when its last reader has ended
    kDeviceIsUsed,      // after the faults, within its time
};
constexpr std::size_t kInvariants = 7;
const char* invariant_name(Invariant invariant);

/// The first of its kind in a run.
struct Violation {
    Invariant invariant = Invariant::kBudgetIsMet;
    Nanoseconds time{0};
    std::string what = {};  // with its values
};

/// A monitor that remembers what it has told.
class ToldMonitor final : public GpuMonitor {
  public:
    ToldMonitor(GpuMonitor& monitor, const DeviceMemory& memory)
        : monitor_(monitor), memory_(memory), room_(memory.cap_bytes) {}

    std::optional<LoadSample> sample(Nanoseconds now) override;
    /// By the last sample that could be true and did not come late.
    std::uint64_t room_bytes() const { return room_; }
    /// When a sample first told of this little room or less, of those since then.
    std::optional<Nanoseconds> told(std::uint64_t room_bytes, Nanoseconds since) const;

  private:
    struct Told {
        Nanoseconds time{0};
        std::uint64_t room_bytes = 0;
    };
    GpuMonitor& monitor_;
    DeviceMemory memory_;
    std::uint64_t room_;
    Nanoseconds newest_{-1};
    std::vector<Told> told_ = {};
};

/// What the bounds are derived from.
struct InvariantLimits {
    std::uint64_t cap_bytes = 0;
    GrowthBackoff::Options growth = {};
    /// The monitor is late by at most this.
    Nanoseconds late_most{0};
};

/// Watches one run. Borrows the monitor.
class Invariants final : public WorldObserver {
  public:
    Invariants(const ToldMonitor& monitor, const InvariantLimits& limits)
        : monitor_(monitor), limits_(limits) {}

    void changed(const SessionWorld& world, WorldEvent event) override;
    /// For what no event of the world shows.
    void broken(Invariant invariant, Nanoseconds time, std::string what);
    /// Puts a line into the log.
    void note(Nanoseconds time, std::string_view what, std::uint64_t value);

    const std::vector<Violation>& violations() const { return violations_; }
    /// One line an event: nanoseconds, what, bytes held.
    const std::string& log() const { return log_; }
    /// FNV-1a, 64 bits.
    std::uint64_t hash() const;
    int n_uploads() const { return static_cast<int>(uploads_.size()); }
    /// How often one group was uploaded within a window at most.
    int moves_most() const { return moves_most_; }

  private:
    struct Upload {
        Nanoseconds time{0};
        std::uint64_t bytes = 0;
        std::vector<std::size_t> groups = {};
    };
    bool is_broken(Invariant invariant) const;
    void check_budget(const SessionWorld& world);
    void check_executed(const SessionWorld& world);
    void check_upload(const SessionWorld& world);
    void check_moves(Nanoseconds now);
    void check_freed(const SessionWorld& world, WorldEvent event);

    const ToldMonitor& monitor_;
    InvariantLimits limits_;
    std::vector<Violation> violations_ = {};
    std::string log_ = {};

    std::optional<Nanoseconds> over_since_ = {};
    // As of the event before.
    Nanoseconds last_{0};
    std::uint64_t room_ = 0;
    std::uint64_t held_ = 0;
    double uploaded_ = 0.0;
    bool uploading_ = false;
    std::uint64_t read_bytes_ = 0;  // dropped, and read until …
    Nanoseconds read_until_{0};
    std::vector<Upload> uploads_ = {};
    int moves_most_ = 0;
};

}  // namespace ballast::scheduler
