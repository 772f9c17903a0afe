// SPDX-License-Identifier: MIT
// Each check looks at two neighbouring events.
#include "scheduler/sim/invariants.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace ballast::scheduler {

namespace {

constexpr Nanoseconds kMeetWithin = std::chrono::milliseconds(200);
// Somebody who asks every tenth of a second, and is told nonsense now and then, knows after this.
constexpr Nanoseconds kToldWithin = std::chrono::seconds(1);
constexpr Nanoseconds kMoveWindow = std::chrono::seconds(10);
// Pressure that returns is followed by a wait, and so is what the device loses: one group moves
// twice a second at most, and a dozen times in a window at worst of some thousand seeds.
constexpr int kMovesMost = 20;

const char* event_name(WorldEvent event) {
    switch (event) {
        case WorldEvent::kTime:
            return "time";
        case WorldEvent::kKept:
            return "keep";
        case WorldEvent::kExecuted:
            return "execute";
        case WorldEvent::kUpload:
            return "upload";
        case WorldEvent::kCancelled:
            return "cancel";
        case WorldEvent::kArrived:
            return "arrived";
        case WorldEvent::kWiped:
            return "wiped";
    }
    return "";
}

}  // namespace

const char* invariant_name(Invariant invariant) {
    switch (invariant) {
        case Invariant::kBudgetIsMet:
            return "the budget is met within 200 ms";
        case Invariant::kExecutesResident:
            return "only what is resident is executed";
        case Invariant::kCopiesFit:
            return "copies fit into the budget";
        case Invariant::kRequestsEnd:
            return "every accepted request ends";
        case Invariant::kMovesBounded:
            return "moves are bounded";
        case Invariant::kFreeIsUnread:
            return "memory is free after its last reader";
        case Invariant::kDeviceIsUsed:
            return "an idle device is used";
    }
    return "";
}

std::optional<LoadSample> ToldMonitor::sample(Nanoseconds now) {
    std::optional<LoadSample> given = monitor_.sample(now);
    if (!given || given->time < newest_) {
        return given;
    }
    newest_ = given->time;
    if (given->others_bytes <= given->device_total_bytes) {
        const std::uint64_t taken = given->others_bytes + memory_.headroom_bytes;
        const std::uint64_t total = given->device_total_bytes;
        room_ = std::min(total > taken ? total - taken : 0, memory_.cap_bytes);
        told_.push_back({now, room_});
    }
    return given;
}

std::optional<Nanoseconds> ToldMonitor::told(std::uint64_t room_bytes, Nanoseconds since) const {
    const auto from =
        std::lower_bound(told_.begin(), told_.end(), since, [](const Told& told, Nanoseconds time) {
            return told.time < time;
        });
    const auto found = std::find_if(
        from, told_.end(), [&](const Told& told) { return told.room_bytes <= room_bytes; });
    return found == told_.end() ? std::nullopt : std::optional(found->time);
}

bool Invariants::is_broken(Invariant invariant) const {
    return std::any_of(violations_.begin(), violations_.end(), [&](const Violation& known) {
        return known.invariant == invariant;
    });
}

void Invariants::broken(Invariant invariant, Nanoseconds time, std::string what) {
    if (!is_broken(invariant)) {
        violations_.push_back({invariant, time, std::move(what)});
    }
}

void Invariants::note(Nanoseconds time, std::string_view what, std::uint64_t value) {
    fmt::format_to(std::back_inserter(log_), "{} {} {}\n", time.count(), what, value);
}

std::uint64_t Invariants::hash() const {
    std::uint64_t hash = 0xCBF29CE484222325ULL;
    for (const char c : log_) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
    }
    return hash;
}

void Invariants::changed(const SessionWorld& world, WorldEvent event) {
    if (event != WorldEvent::kTime) {
        note(world.now(), event_name(event), world.held_bytes());
    }
    check_freed(world, event);
    check_budget(world);
    if (event == WorldEvent::kUpload) {
        check_upload(world);
        check_moves(world.now());
    }
    if (event != WorldEvent::kTime) {
        check_executed(world);
    }
    last_ = world.now();
    room_ = world.truth().room_bytes;
    held_ = world.held_bytes();
    uploaded_ = world.result().uploaded_bytes;
    uploading_ = world.uploading();
}

void Invariants::check_budget(const SessionWorld& world) {
    const LoadTruth& truth = world.truth();
    if (truth.suspended || world.resident_bytes() <= truth.room_bytes) {
        over_since_.reset();
        return;
    }
    if (!over_since_ || truth.room_bytes < room_) {
        over_since_ = world.now();
    }
    const auto told = monitor_.told(truth.room_bytes, *over_since_);
    const Nanoseconds known = told.value_or(*over_since_ + limits_.late_most + kToldWithin);
    if (world.now() > known + kMeetWithin) {
        broken(Invariant::kBudgetIsMet,
               world.now(),
               fmt::format("{} bytes are ours where there is room for {}, {:.3f} s after {}",
                           world.resident_bytes(),
                           truth.room_bytes,
                           to_seconds(world.now() - known),
                           told ? "that was told" : "somebody should have asked"));
    }
}

void Invariants::check_executed(const SessionWorld& world) {
    for (std::size_t i = 0; i < world.kept().groups.size(); ++i) {
        const GroupPlacement& kept = world.kept().groups[i];
        const GroupPlacement& executed = world.executed().groups[i];
        if (executed.resident > kept.resident ||
            (executed.shared_on_device && !kept.shared_on_device)) {
            broken(Invariant::kExecutesResident,
                   world.now(),
                   fmt::format("group {} runs {} parts on the device, of which {} are there",
                               i,
                               executed.resident,
                               kept.resident));
        }
    }
}

void Invariants::check_upload(const SessionWorld& world) {
    if (uploading_) {
        broken(Invariant::kCopiesFit, world.now(), "an upload begins beside another one");
    }
    if (world.held_bytes() > monitor_.room_bytes()) {
        broken(Invariant::kCopiesFit,
               world.now(),
               fmt::format("an upload makes {} bytes ours where {} were left by the last sample",
                           world.held_bytes(),
                           monitor_.room_bytes()));
    }
    Upload upload{.time = world.now()};
    for (const SessionWorld::Arriving& next : world.in_flight()) {
        upload.bytes += next.growth.bytes;
        upload.groups.push_back(next.growth.group);
    }
    uploads_.push_back(std::move(upload));
}

void Invariants::check_moves(Nanoseconds now) {
    std::uint64_t bytes = 0;
    for (auto upload = uploads_.rbegin(); upload != uploads_.rend(); ++upload) {
        bytes += upload->bytes;
        const double budgets = limits_.growth.burst_budgets +
                               to_seconds(now - upload->time) / to_seconds(limits_.growth.refill);
        // A byte for each rounding.
        if (static_cast<double>(bytes) > budgets * static_cast<double>(limits_.cap_bytes) +
                                             static_cast<double>(uploads_.size())) {
            broken(Invariant::kMovesBounded,
                   now,
                   fmt::format("{} bytes were uploaded within {:.3f} s, and a budget is {}",
                               bytes,
                               to_seconds(now - upload->time),
                               limits_.cap_bytes));
        }
    }
    for (const std::size_t group : uploads_.back().groups) {
        int n = 0;
        for (const Upload& upload : uploads_) {
            const bool is_recent = now - upload.time <= kMoveWindow;
            n += is_recent ? static_cast<int>(
                                 std::count(upload.groups.begin(), upload.groups.end(), group))
                           : 0;
        }
        moves_most_ = std::max(moves_most_, n);
        if (n > kMovesMost) {
            broken(Invariant::kMovesBounded,
                   now,
                   fmt::format("group {} was uploaded {} times within {:.0f} s",
                               group,
                               n,
                               to_seconds(kMoveWindow)));
        }
    }
}

void Invariants::check_freed(const SessionWorld& world, WorldEvent event) {
    const Nanoseconds now = world.now();
    if (event == WorldEvent::kWiped) {
        read_bytes_ = 0;
        read_until_ = now;
        return;
    }
    const bool drops =
        event == WorldEvent::kKept || (event == WorldEvent::kExecuted && world.in_step());
    if (drops && world.held_bytes() < held_) {
        read_bytes_ = (now < read_until_ ? read_bytes_ : 0) + held_ - world.held_bytes();
        read_until_ = now + kChangeStall;
    }
    if (last_ < read_until_ && world.result().uploaded_bytes > uploaded_) {
        broken(Invariant::kFreeIsUnread,
               now,
               fmt::format("{:.0f} bytes were copied while {} were still read",
                           world.result().uploaded_bytes - uploaded_,
                           read_bytes_));
    }
    if (now < read_until_ && world.resident_bytes() < world.held_bytes() + read_bytes_) {
        broken(Invariant::kFreeIsUnread,
               now,
               fmt::format("{} bytes count as ours where {} are held and {} still read",
                           world.resident_bytes(),
                           world.held_bytes(),
                           read_bytes_));
    }
}

}  // namespace ballast::scheduler
