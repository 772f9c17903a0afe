// SPDX-License-Identifier: MIT
// A step in which nothing changes takes its known time; any other is replayed event by event.
#include "scheduler/sim/session_world.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/check.h"

namespace ballast::scheduler {

namespace {

constexpr double kGiga = 1e9;
constexpr Nanoseconds kNever = Nanoseconds::max();

}  // namespace

SessionWorld::SessionWorld(StepTimes& times,
                           const Residency& residency,
                           const KvReserve& reserve,
                           std::vector<LoadTruth> truths,
                           Nanoseconds duration)
    : times_(times),
      residency_(residency),
      reserve_(reserve),
      truths_(std::move(truths)),
      duration_(duration),
      kept_(cpu_only(*times.setup().catalog)),
      executed_(kept_) {
    const auto n_bins =
        static_cast<std::size_t>((duration + kTimelineStep - Nanoseconds{1}) / kTimelineStep);
    result_.timeline.resize(n_bins);
    for (std::size_t i = 0; i < n_bins; ++i) {
        result_.timeline[i].time =
            std::min(kTimelineStep * static_cast<std::int64_t>(i + 1), duration);
    }
}

std::uint64_t SessionWorld::held_bytes() const {
    if (!resident_) {
        resident_ = residency_.bytes(kept_, executed_);
    }
    return *resident_ + upload_reserved_;
}

void SessionWorld::begin_with(const Placement& placement) {
    for (std::size_t i = 0; i < placement.groups.size(); ++i) {
        kept_.groups[i] = placement.groups[i];
        kept_.groups[i].streamed = 0;
    }
    execute(placement);
}

void SessionWorld::keep(const Placement& kept) {
    adopt();
    const std::uint64_t before = residency_.bytes(kept_, executed_);
    kept_ = kept;
    for (std::size_t i = 0; i < kept.groups.size(); ++i) {
        // Until another placement is executed, this one goes on with what is left.
        GroupPlacement& placed = executed_.groups[i];
        placed.resident = std::min(placed.resident, kept.groups[i].resident);
        placed.shared_on_device = placed.shared_on_device && kept.groups[i].shared_on_device;
    }
    resident_.reset();
    drop(before);
    has_changed(WorldEvent::kKept);
}

void SessionWorld::execute(const Placement& executed) {
    if (executed_ == executed) {
        return;
    }
    const std::uint64_t before = in_step_ ? residency_.bytes(kept_, executed_) : 0;
    executed_ = executed;
    resident_.reset();
    if (in_step_) {
        drop(before);
    }
    has_changed(WorldEvent::kExecuted);
}

void SessionWorld::drop(std::uint64_t bytes_before) {
    const std::uint64_t after = residency_.bytes(kept_, executed_);
    if (after < bytes_before) {
        freed_bytes_ += bytes_before - after;
        stalled_until_ = std::max(stalled_until_, now_ + read_after_drop());
    }
}

void SessionWorld::has_changed(WorldEvent event) const {
    if (observer_ != nullptr) {
        observer_->changed(*this, event);
    }
}

double SessionWorld::link_bytes(const ResidencyGrowth& growth) const {
    // Of keys and values only those cross that there are yet.
    const StepSetup& setup = times_.setup();
    const TensorGroup& group = setup.catalog->groups[growth.group];
    const GroupBytes then = group_bytes(group, growth.then, reserve_);
    const GroupBytes now = group_bytes(group, kept_.groups[growth.group], reserve_);
    const double kv = static_cast<double>(then.kv - now.kv);
    const double filled = reserve_.tokens > 0 ? static_cast<double>(setup.depth) /
                                                    static_cast<double>(reserve_.tokens)
                                              : 1.0;
    return static_cast<double>(then.weights - now.weights) + kv * std::min(1.0, filled);
}

void SessionWorld::upload(const std::vector<ResidencyGrowth>& growth) {
    BALLAST_CHECK(upload_.empty());
    double total = 0.0;
    for (const ResidencyGrowth& next : growth) {
        total += link_bytes(next);
        upload_reserved_ += next.bytes;
        upload_.push_back({next, total});
    }
    uploaded_ = 0.0;
    stalled_until_ = std::max(stalled_until_, now_ + kChangeStall);
    has_changed(WorldEvent::kUpload);
    if (times_.setup().hardware.unified_memory) {
        uploaded_ = total;  // it is there already
        adopt();
    }
}

void SessionWorld::cancel_upload() {
    adopt();
    if (!uploading()) {
        return;
    }
    // The copy that is under way still writes.
    freed_bytes_ += std::exchange(upload_reserved_, 0);
    stalled_until_ = std::max(stalled_until_, now_ + read_after_drop());
    upload_.clear();
    has_changed(WorldEvent::kCancelled);
}

void SessionWorld::adopt() {
    std::size_t n = 0;
    while (n < upload_.size() && upload_[n].link_bytes <= uploaded_ + 1.0) {
        const ResidencyGrowth& arrived = upload_[n].growth;
        kept_.groups[arrived.group] = arrived.then;
        upload_reserved_ -= arrived.bytes;
        ++n;
    }
    if (n > 0) {
        upload_.erase(upload_.begin(), upload_.begin() + static_cast<std::ptrdiff_t>(n));
        resident_.reset();
        ++n_changes_;
        has_changed(WorldEvent::kArrived);
    }
}

void SessionWorld::wipe() {
    upload_.clear();
    upload_reserved_ = 0;
    freed_bytes_ = 0;
    kept_ = cpu_only(*times_.setup().catalog);
    executed_ = kept_;
    resident_.reset();
    ++n_changes_;
    has_changed(WorldEvent::kWiped);
}

double SessionWorld::upload_left() const {
    // A byte is rounding.
    const double left = upload_.empty() ? 0.0 : upload_.back().link_bytes - uploaded_;
    return left > 1.0 ? left : 0.0;
}

double SessionWorld::upload_rate() const {
    return times_.setup().hardware.link_gbps * kGiga * truth().conditions.link;
}

Nanoseconds SessionWorld::upload_end() const {
    const Nanoseconds begin = std::max(now_, stalled_until_);
    return upload_left() > 0.0 ? begin + to_nanoseconds(upload_left() / upload_rate()) : kNever;
}

SimConditions SessionWorld::conditions() const {
    SimConditions now = truth().conditions;
    const auto resident = static_cast<double>(resident_bytes());
    const double over = resident - static_cast<double>(truth().room_bytes);
    if (!times_.setup().hardware.unified_memory && over > 0.0) {
        now.spilled = over / resident;
    }
    now.uploading = upload_left() > 0.0;
    now.stalled = now_ < stalled_until_;
    return now;
}

Nanoseconds SessionWorld::next_change(SessionWatcher* watcher) const {
    Nanoseconds next = std::min(duration_, upload_end());
    if (truth_ + 1 < truths_.size()) {
        next = std::min(next, truths_[truth_ + 1].time);
    }
    if (now_ < stalled_until_) {
        next = std::min(next, stalled_until_);
    }
    if (watcher != nullptr) {
        next = std::min(next, watcher->next_poll().value_or(kNever));
    }
    return std::max(next, now_);
}

void SessionWorld::note_bins(Nanoseconds to) {
    // Each point says what holds at its end.
    for (auto i = static_cast<std::size_t>(now_ / kTimelineStep); i < result_.timeline.size();
         ++i) {
        TimelinePoint& point = result_.timeline[i];
        if (point.time > to) {
            break;
        }
        point.room_bytes = truth().suspended ? 0 : truth().room_bytes;
        point.resident_bytes = resident_bytes();
        point.level = level_;
    }
}

void SessionWorld::advance(Nanoseconds to) {
    if (to <= now_) {
        return;
    }
    note_bins(to);
    if (!truth().suspended && resident_bytes() > truth().room_bytes) {
        if (over_since_ < Nanoseconds{0}) {
            over_since_ = now_;
        }
        result_.over_room = std::max(result_.over_room, to - over_since_);
    } else {
        over_since_ = Nanoseconds{-1};
    }
    // In a stall memory is freed and taken, and nothing is copied.
    if (uploading() && truth().usable() && now_ >= stalled_until_) {
        const double bytes = std::min(to_seconds(to - now_) * upload_rate(), upload_left());
        uploaded_ += bytes;
        result_.uploaded_bytes += bytes;
    }
    now_ = to;
    if (now_ >= stalled_until_) {
        freed_bytes_ = 0;
    }
    while (truth_ + 1 < truths_.size() && truths_[truth_ + 1].time <= now_) {
        ++truth_;
        if (truths_[truth_].n_wipes != truths_[truth_ - 1].n_wipes) {
            wipe();
        }
    }
    has_changed(WorldEvent::kTime);
}

void SessionWorld::wait(Nanoseconds until, SessionWatcher* watcher) {
    while (now_ < until && !ended()) {
        SessionWatcher* const awake = truth().suspended ? nullptr : watcher;
        advance(std::min(next_change(awake), until));
        if (awake != nullptr && awake->next_poll().value_or(kNever) <= now_) {
            awake->poll();
        }
    }
    adopt();
}

void SessionWorld::wait_until_awake() {
    while (!ended() && (truth().suspended || now_ < stalled_until_)) {
        advance(next_change(nullptr));
    }
    adopt();
}

void SessionWorld::count_tokens(Nanoseconds begin, Nanoseconds end, double tokens) {
    result_.tokens += tokens;
    const double span = to_seconds(end - begin);
    for (auto i = static_cast<std::size_t>(begin / kTimelineStep); i < result_.timeline.size();
         ++i) {
        const Nanoseconds until = std::min(result_.timeline[i].time, end);
        const Nanoseconds from = std::max(kTimelineStep * static_cast<std::int64_t>(i), begin);
        if (until <= from) {
            break;
        }
        result_.timeline[i].tokens += tokens * to_seconds(until - from) / span;
    }
}

std::optional<double> SessionWorld::run_step(SessionWatcher* watcher) {
    in_step_ = true;
    const std::optional<double> seconds = step(watcher);
    in_step_ = false;
    return seconds;
}

std::optional<double> SessionWorld::step(SessionWatcher* watcher) {
    if (executed_.n_on_device() > 0 && !truth().device_works) {
        ++result_.n_steps_redone;
        return std::nullopt;
    }
    const Nanoseconds begin = now_;
    const Placement began_with = executed_;
    const SimConditions first = conditions();
    const double known = times_.seconds(executed_, first);
    const int wipes = truth().n_wipes;
    const bool on_device = executed_.n_on_device() > 0;
    std::optional<StepReplay> replay;
    SimConditions last = first;
    Placement running = executed_;
    while (true) {
        const Nanoseconds change = next_change(watcher);
        const Nanoseconds planned_end = begin + to_nanoseconds(known);
        const bool ends = replay ? replay->run_until(change - begin) : change >= planned_end;
        if (ends) {
            advance(replay ? begin + replay->ended() : planned_end);
            break;
        }
        advance(change);
        if (ended()) {
            // The rest of a step counts as far as it would have come.
            count_tokens(begin, now_, std::min(1.0, to_seconds(now_ - begin) / known));
            return std::nullopt;
        }
        if (truth().suspended || (on_device && truth().n_wipes != wipes)) {
            ++result_.n_steps_redone;
            return std::nullopt;
        }
        if (watcher != nullptr && watcher->next_poll().value_or(kNever) <= now_) {
            watcher->poll();
        }
        const SimConditions next = conditions();
        const bool replaced = !(executed_ == running);
        if (next == last && !replaced) {
            continue;
        }
        if (!replay) {
            replay.emplace(times_.setup(), began_with, first, ++n_replays_);
            replay->run_until(now_ - begin);
        }
        replay->set_conditions(next);
        if (replaced) {
            running = executed_;
            replay->replace(running);
        }
        last = next;
    }
    adopt();
    count_tokens(begin, now_, 1.0);
    result_.steps.push_back({begin, now_});
    return to_seconds(now_ - begin);
}

}  // namespace ballast::scheduler
