// SPDX-License-Identifier: MIT
// The order of things: look, give back what has to go, try a lost device again, follow the rule.
#include "engine/runtime/live_device.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/log.h"
#include "engine/base/units.h"

namespace ballast::runtime {

using scheduler::LoadDirective;
using scheduler::LoadLevel;

namespace {

// After a refused allocation the same is tried again after this, then after twice as long.
constexpr Nanoseconds kRefusedLeast = std::chrono::seconds(1);
constexpr Nanoseconds kRefusedMost = std::chrono::minutes(1);

// Two clocks are never read at the same time.
constexpr Nanoseconds kSleepLeast = std::chrono::milliseconds(100);

double mib(std::uint64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(kMiB);
}

std::string reason_of(LoadCause cause, const std::string& whom) {
    switch (cause) {
        case LoadCause::kMemory:
            return fmt::format("The device's memory is wanted by {}", whom);
        case LoadCause::kBusy:
            return fmt::format("The device is kept busy by {}", whom);
        case LoadCause::kPaused:
            return "Paused by request";
        case LoadCause::kSuspended:
            return "The computer goes to sleep";
        case LoadCause::kIdle:
            return "Nothing runs";
        case LoadCause::kLost:
            return "The device was lost";
        case LoadCause::kFailedSubmission:
            return "The device took no work";
        case LoadCause::kFailedAllocation:
            return "The device gave no memory";
    }
    return "";
}

}  // namespace

std::uint64_t LiveDevice::first_budget() {
    const Nanoseconds now = clock_.now();
    watch_.working(now);  // whoever starts it wants to use it
    directive_ = watch_.look(now, 0);
    return directive_.use_device ? directive_.budget_bytes : 0;
}

void LiveDevice::take_over(Compute& compute) {
    compute_ = &compute;
    next_.has_device = compute.wants_device();
    slept_ = clock_.slept();
    share_ = std::make_unique<HeldShare>(compute);
    share_->set_budget(directive_.budget_bytes);
    begin_rule();
    note_refusals(clock_.now(), true);
    publish();
}

void LiveDevice::begin_rule() {
    scheduler::TensorScheduler& scheduler = compute_->scheduler();
    const bool decides = scheduler.costs() && !compute_->has_fixed_plan();
    if (rule_ != nullptr || !next_.has_device || !decides) {
        return;
    }
    rule_ = std::make_unique<scheduler::ShareRule>(
        scheduler::ShareRule::Parts{.keeper = share_.get(),
                                    .plans = &scheduler,
                                    .residency = &scheduler.residency(),
                                    .control = &watch_.control()});
    rule_->begin(directive_, scheduler.plan()->placement);
}

bool LiveDevice::must_give(const LoadDirective& directive) const {
    return compute_->device_use().bytes > directive.budget_bytes;
}

Result<LiveDevice::Kv> LiveDevice::follow(bool working) {
    const Nanoseconds now = clock_.now();
    if (working) {
        watch_.working(now);
    }
    const std::uint64_t before = directive_.version;
    directive_ = watch_.look(now, share_->held_bytes());
    share_->set_budget(directive_.budget_bytes);
    Kv kv = Kv::kKept;
    if (has_slept() && compute_->device_use().bytes > 0) {
        BALLAST_TRY(kv, wake());
    }
    if (must_give(directive_) || share_->held_bytes() > directive_.budget_bytes) {
        BALLAST_TRY(const Kv given, give(watch_.cause()));
        kv = given == Kv::kLost ? given : kv;
    }
    if (working && next_.has_device && directive_.level == LoadLevel::kDegraded &&
        watch_.control().may_retry(now)) {
        watch_.control().device_back(now);
        directive_ = watch_.look(now, 0);
        share_->set_budget(directive_.budget_bytes);
    }
    if (next_.has_device && (working || share_->uploading())) {
        begin_rule();
        BALLAST_TRY(const Kv after, live(now, working));
        kv = after == Kv::kLost ? after : kv;
    }
    if (directive_.version != before ||
        next_.others_bytes != watch_.control().view().others_bytes ||
        next_.reason != directive_.reason) {
        publish();
    }
    return kv;
}

Result<LiveDevice::Kv> LiveDevice::give(LoadCause cause) {
    if (cause == LoadCause::kLost) {
        return degrade(cause, "");
    }
    const bool any = rule_ != nullptr && directive_.budget_bytes > compute_->step_bytes();
    return any ? shrink(cause) : release(cause, sentence(cause, ""));
}

bool LiveDevice::is_overdue() {
    directive_ = watch_.look(clock_.now(), share_->held_bytes());
    return must_give(directive_);
}

Result<LiveDevice::Kv> LiveDevice::step_failed(const Error& error) {
    if (compute_->device_use().bytes == 0) {
        return tl::unexpected(error);
    }
    const bool lost = error.code == ErrorCode::kDeviceLost;
    return lost ? degrade(LoadCause::kLost, "")
                : degrade(LoadCause::kFailedSubmission, error.message);
}

Result<LiveDevice::Kv> LiveDevice::degrade(LoadCause cause, const std::string& detail) {
    watch_.control().device_lost(clock_.now());
    next_.degraded = cause;
    next_.degraded_text = sentence(cause, detail);
    BALLAST_TRY(const Kv kv, release(cause, next_.degraded_text));
    compute_->drop_device();
    n_refused_ = 0;
    refused_wait_ = Nanoseconds(0);
    directive_ = watch_.look(clock_.now(), 0);
    publish();
    return kv;
}

std::string LiveDevice::sentence(LoadCause cause, const std::string& detail) const {
    const std::string reason = reason_of(cause, watch_.whom());
    return detail.empty() ? reason : fmt::format("{}: {}", reason, detail);
}

bool LiveDevice::has_slept() {
    const Nanoseconds before = std::exchange(slept_, clock_.slept());
    return slept_ - before >= kSleepLeast;
}

Result<LiveDevice::Kv> LiveDevice::wake() {
    BALLAST_TRY(const Kv kv,
                release(LoadCause::kSuspended,
                        "The computer has slept, and what the device held is not trusted",
                        false));
    compute_->drop_device();
    n_refused_ = 0;
    return kv;
}

Result<LiveDevice::Kv> LiveDevice::release(LoadCause cause,
                                           const std::string& sentence,
                                           bool is_trusted) {
    const Nanoseconds begin = clock_.now();
    BALLAST_TRY(const ReleasedDevice released, compute_->release_device(is_trusted));
    const double release_ms = 1e3 * to_seconds(clock_.now() - begin);
    next_.evicted_bytes[static_cast<std::size_t>(cause)] += released.bytes;
    ++next_.n_moves;
    publish();  // the plan for the CPU alone is no reason to wait
    std::string moved =
        fmt::format("{:.1f} MiB of the device are given back: ", mib(released.bytes));
    if (released.n_kv_layers > 0) {
        moved += fmt::format(
            "keys and values of {} layers{}, then ",
            released.n_kv_layers,
            released.kv_lost ? " (lost; what has no copy on the host is computed again)" : "");
    }
    moved += fmt::format("weights of {} groups and the step's memory.", released.n_groups);
    const std::string why = fmt::format("{}; {}", sentence, moved);
    share_->reset();
    moved_ = {};
    scheduler::TensorScheduler& scheduler = compute_->scheduler();
    scheduler.adopt(scheduler.plan_for(0.0), 0.0, load_cause_name(cause), why);
    log_info("{} It took {:.1f} ms.", why, release_ms);
    return released.kv_lost ? Kv::kLost : Kv::kKept;
}

Result<LiveDevice::Kv> LiveDevice::shrink(LoadCause cause) {
    const Nanoseconds begin = clock_.now();
    const std::uint64_t held = compute_->device_use().bytes;
    const std::uint64_t budget = directive_.budget_bytes;
    rule_->meet_budget(budget);
    auto done = share_->commit(*rule_->plan());
    if (done && must_give(directive_)) {
        drop_more(budget);
        done = share_->commit(*rule_->plan());
    }
    if (!done) {
        return degrade(LoadCause::kLost, done.error().message);
    }
    ShareMoves moves = share_->take_moves();
    if (must_give(directive_)) {
        return release(cause, sentence(cause, "no part of it may stay"));
    }
    const std::uint64_t holds = compute_->device_use().bytes;
    moves.given_bytes = held - std::min(held, holds);
    if (!moves.any()) {
        return Kv::kKept;
    }
    watch_.control().holds(share_->held_bytes());
    next_.evicted_bytes[static_cast<std::size_t>(cause)] += moves.given_bytes;
    ++next_.n_moves;
    publish();  // what follows is no reason to wait
    const double ms = 1e3 * to_seconds(clock_.now() - begin);
    say_what_moved(load_cause_name(cause),
                   fmt::format("{}; {:.1f} MiB of the device are given back in {:.1f} ms",
                               sentence(cause, ""),
                               mib(moves.given_bytes),
                               ms),
                   moves);
    return Kv::kKept;
}

/// Memory goes back in whole chunks, so that what is dropped by count may not have been enough.
void LiveDevice::drop_more(std::uint64_t budget_bytes) {
    scheduler::TensorScheduler& scheduler = compute_->scheduler();
    scheduler::Placement kept = share_->kept();
    for (const std::size_t group :
         scheduler.residency().eviction_order(scheduler.step_model({}), kept)) {
        if (compute_->device_use().bytes <= budget_bytes) {
            return;
        }
        if (!(kept.groups[group] == scheduler::GroupPlacement{})) {
            kept.groups[group] = {};
            share_->keep(kept);
        }
    }
}

Result<LiveDevice::Kv> LiveDevice::live(Nanoseconds now, bool may_grow) {
    if (rule_ == nullptr) {
        return Kv::kKept;
    }
    if (refused_wait_.count() > 0 && !retrying_ && may_grow && now - refused_at_ >= refused_wait_) {
        retrying_ = true;
        share_->try_again();
    }
    may_grow = may_grow && (refused_wait_.count() == 0 || retrying_);
    const Nanoseconds begin = clock_.now();
    bool changed = false;
    const auto all = follow_rule(now, may_grow, changed);
    if (!all) {
        return degrade(LoadCause::kLost, all.error().message);
    }
    note_refusals(now, *all);
    note_moves(changed, clock_.now() - begin);
    return Kv::kKept;
}

/// False: the device gave no memory for something.
Result<bool> LiveDevice::follow_rule(Nanoseconds now, bool may_grow, bool& changed) {
    const bool was_uploading = share_->uploading();
    BALLAST_TRY(bool all, share_->advance());
    rule_->before_step(now, directive_, may_grow);
    if (share_->uploading() && !was_uploading) {
        log_debug("{:.1f} MiB of the device may be used; an upload begins",
                  mib(directive_.budget_bytes));
        const int n_changes = share_->n_changes();
        BALLAST_TRY(const bool begun, share_->advance());
        all = all && begun;
        if (share_->n_changes() != n_changes) {
            // It lay there still, in chunks that others needed.
            rule_->before_step(now, directive_, false);
        }
    }
    changed = share_->is_changed();
    BALLAST_TRY(const bool done, share_->commit(*rule_->plan()));
    return all && done;
}

/// What an upload brings piece by piece is told of once, when it has ended.
void LiveDevice::note_moves(bool changed, Nanoseconds took) {
    ShareMoves moves = share_->take_moves();
    if (next_.degraded && *next_.degraded != LoadCause::kFailedAllocation &&
        compute_->residency().n_on_device() > 0) {
        next_.degraded.reset();
        next_.degraded_text.clear();
    }
    moved_.add(std::move(moves));
    if (changed || moved_.any()) {
        watch_.control().holds(share_->held_bytes());
        publish();
    }
    if (share_->uploading() || (!changed && !moved_.any())) {
        return;
    }
    const ShareMoves all = std::exchange(moved_, {});
    const char* const cause = directive_.use_device ? "room" : load_cause_name(watch_.cause());
    std::string why = directive_.use_device
                          ? fmt::format("{:.1f} MiB of the device may be used, and {:.1f} MiB are",
                                        mib(directive_.budget_bytes),
                                        mib(compute_->device_use().bytes))
                          : sentence(watch_.cause(), "");
    if (all.any()) {
        ++next_.n_moves;
        publish();
    }
    log_debug("the last change of the share took {:.1f} ms", 1e3 * to_seconds(took));
    say_what_moved(cause, why, all);
}

void LiveDevice::say_what_moved(const char* cause,
                                const std::string& why,
                                const ShareMoves& moves) {
    const std::string text = fmt::format("{}{}.", why, moves.sentence(compute_->catalog()));
    log_info("{}", text);
    scheduler::TensorScheduler& scheduler = compute_->scheduler();
    const auto room = static_cast<double>(compute_->room_of(directive_.budget_bytes));
    scheduler.adopt(scheduler.plan_of(share_->executed(), room), room, cause, text);
}

/// `all`: what was asked for could be had, as far as there was room for it.
void LiveDevice::note_refusals(Nanoseconds now, bool all) {
    const std::uint64_t refused = compute_->device_use().n_refused;
    const bool is_refused = refused != std::exchange(n_refused_, refused);
    if (is_refused || !all) {
        refused_at_ = now;
        refused_wait_ = std::clamp(2 * refused_wait_, kRefusedLeast, kRefusedMost);
        retrying_ = false;
    }
    if (is_refused) {
        next_.degraded = LoadCause::kFailedAllocation;
        next_.degraded_text = compute_->residency().degraded;
    } else if (all && retrying_ && !share_->uploading()) {
        retrying_ = false;
        refused_wait_ = Nanoseconds(0);
        next_.degraded.reset();
        next_.degraded_text.clear();
    }
}

void LiveDevice::step_took(Nanoseconds duration) {
    if (rule_ != nullptr) {
        rule_->after_step(to_seconds(duration));
    }
    next_.transfers = compute_->transfers();
    const std::lock_guard lock(mutex_);
    published_.transfers = next_.transfers;
}

void LiveDevice::publish() {
    const scheduler::LoadView& view = watch_.control().view();
    next_.level = directive_.level;
    next_.reason = directive_.reason;
    next_.self_bytes = compute_->device_use().bytes;
    next_.n_refused = compute_->device_use().n_refused;
    next_.booked_bytes = compute_->booked_bytes();
    next_.transfers = compute_->transfers();
    next_.others_bytes = view.others_bytes;
    next_.total_bytes = view.total_bytes;
    next_.contention = 1.0 - view.device_share;
    next_.residency = std::make_shared<const Residency>(compute_->residency());
    const std::lock_guard lock(mutex_);
    published_ = next_;
}

LoadReport LiveDevice::report() const {
    const std::lock_guard lock(mutex_);
    return published_;
}

}  // namespace ballast::runtime
