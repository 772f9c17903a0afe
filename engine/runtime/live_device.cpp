// SPDX-License-Identifier: MIT
// The order of things: look, give back what has to go, try a lost device again, grow.
#include "engine/runtime/live_device.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/log.h"
#include "engine/base/units.h"

namespace ballast::runtime {

using scheduler::LoadDirective;
using scheduler::LoadLevel;

namespace {

// More room by less than this share of the whole is not worth a new plan, and neither is a plan
// that is faster by less than this.
constexpr double kWorthPlanning = 0.05;
constexpr double kWorthMoving = 0.02;
// After a refused allocation the same is tried again after this, then after twice as long.
constexpr Nanoseconds kRefusedLeast = std::chrono::seconds(1);
constexpr Nanoseconds kRefusedMost = std::chrono::minutes(1);

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
    judged_bytes_ = directive_.use_device ? directive_.budget_bytes : 0;
    const scheduler::Forecast forecast = compute.scheduler().state().plan->forecast;
    if (forecast.decode_seconds > 0.0) {
        without_ratio_ = forecast.cpu_decode_seconds / forecast.decode_seconds;
    }
    note_refusals(clock_.now());
    publish();
}

bool LiveDevice::must_give(const LoadDirective& directive) const {
    const std::uint64_t held = compute_->device_use().bytes;
    return held > 0 && (!directive.use_device || held > directive.budget_bytes);
}

Result<LiveDevice::Kv> LiveDevice::follow(bool working) {
    const Nanoseconds now = clock_.now();
    if (working) {
        watch_.working(now);
    }
    const std::uint64_t before = directive_.version;
    directive_ = watch_.look(now, compute_->device_use().bytes);
    Kv kv = Kv::kKept;
    if (must_give(directive_)) {
        const LoadCause cause = watch_.cause();
        BALLAST_TRY(kv, cause == LoadCause::kLost ? degrade(cause, "") : release(cause, ""));
    }
    if (working && next_.has_device && directive_.level == LoadLevel::kDegraded &&
        watch_.control().may_retry(now)) {
        watch_.control().device_back(now);
        directive_ = watch_.look(now, 0);
    }
    if (working && next_.has_device && directive_.use_device) {
        BALLAST_TRY(const Kv after, grow(now));
        kv = after == Kv::kLost ? after : kv;
    }
    if (directive_.version != before ||
        next_.others_bytes != watch_.control().view().others_bytes ||
        next_.reason != directive_.reason) {
        publish();
    }
    return kv;
}

bool LiveDevice::is_overdue() {
    directive_ = watch_.look(clock_.now(), compute_->device_use().bytes);
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
    BALLAST_TRY(const Kv kv, release(cause, detail));
    compute_->drop_device();
    n_refused_ = 0;
    directive_ = watch_.look(clock_.now(), 0);
    publish();
    return kv;
}

std::string LiveDevice::sentence(LoadCause cause, const std::string& detail) const {
    const std::string reason = reason_of(cause, watch_.whom());
    return detail.empty() ? reason : fmt::format("{}: {}", reason, detail);
}

Result<LiveDevice::Kv> LiveDevice::release(LoadCause cause, const std::string& detail) {
    const Nanoseconds begin = clock_.now();
    BALLAST_TRY(const ReleasedDevice released, compute_->release_device());
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
    const std::string why = fmt::format("{}; {}", sentence(cause, detail), moved);
    compute_->plan_without_device({.cause = load_cause_name(cause), .why = why});
    log_info("{} It took {:.1f} ms.", why, release_ms);
    judged_bytes_.reset();
    without_ratio_ = 1.0;
    return released.kv_lost ? Kv::kLost : Kv::kKept;
}

Result<LiveDevice::Kv> LiveDevice::grow(Nanoseconds now) {
    const bool again = refused_wait_.count() > 0 && now - refused_at_ >= refused_wait_;
    if (again) {
        judged_bytes_.reset();
    }
    scheduler::LoadControl& control = watch_.control();
    const std::uint64_t cap = directive_.budget_bytes;
    const std::uint64_t limit = control.growth_limit(now);
    const auto more = static_cast<std::uint64_t>(kWorthPlanning * static_cast<double>(cap));
    if (limit == 0 || (judged_bytes_ && limit <= *judged_bytes_ + more)) {
        return Kv::kKept;
    }
    const std::uint64_t held = compute_->device_use().bytes;
    // All that will be there crosses the link, so that is what has to be affordable.
    if (control.growth(now, held, limit) < limit - std::min(held, limit)) {
        return Kv::kKept;
    }
    scheduler::Plan plan = compute_->plan_for(limit);
    const double now_seconds = compute_->scheduler().state().plan->forecast.decode_seconds;
    if (held > 0 && !again && plan.forecast.decode_seconds > (1.0 - kWorthMoving) * now_seconds) {
        judged_bytes_ = limit;
        return Kv::kKept;
    }
    if (held == 0 && plan.placement.n_on_device() == 0) {
        judged_bytes_ = limit;
        return Kv::kKept;
    }
    return rebuild(std::move(plan), limit);
}

Result<LiveDevice::Kv> LiveDevice::rebuild(scheduler::Plan plan, std::uint64_t device_bytes) {
    const Nanoseconds begin = clock_.now();
    const std::uint64_t held = compute_->device_use().bytes;
    Kv kv = Kv::kKept;
    BALLAST_TRY(const ReleasedDevice released, compute_->release_device());
    kv = released.kv_lost ? Kv::kLost : kv;
    const std::string why = fmt::format("{:.1f} MiB of the device may be used.", mib(device_bytes));
    const double cpu_seconds = plan.forecast.cpu_decode_seconds;
    const double decode_seconds = plan.forecast.decode_seconds;
    BALLAST_TRY(const BuiltDevice built,
                compute_->build_device(std::move(plan), device_bytes, {"room", why}));
    if (!built.status) {
        BALLAST_TRY(const Kv after, degrade(LoadCause::kLost, built.status.error().message));
        return built.kv_lost || after == Kv::kLost ? Kv::kLost : kv;
    }
    const Nanoseconds now = clock_.now();
    const std::uint64_t holds = compute_->device_use().bytes;
    log_info("{} {:.1f} MiB are in use.", why, mib(holds));
    watch_.control().grew(now, holds > held ? holds - held : 0, to_seconds(now - begin));
    watch_.control().holds(holds);
    without_ratio_ = decode_seconds > 0.0 ? cpu_seconds / decode_seconds : 1.0;
    judged_bytes_ = device_bytes;
    ++next_.n_moves;
    next_.degraded.reset();
    next_.degraded_text.clear();
    note_refusals(now);
    publish();
    return kv;
}

void LiveDevice::note_refusals(Nanoseconds now) {
    const std::uint64_t refused = compute_->device_use().n_refused;
    if (refused == n_refused_) {
        refused_wait_ = Nanoseconds(0);
        return;
    }
    n_refused_ = refused;
    refused_at_ = now;
    refused_wait_ = std::clamp(2 * refused_wait_, kRefusedLeast, kRefusedMost);
    next_.degraded = LoadCause::kFailedAllocation;
    next_.degraded_text = compute_->residency().degraded;
}

void LiveDevice::step_took(Nanoseconds duration) {
    const double seconds = to_seconds(duration);
    watch_.control().gained(seconds, seconds * without_ratio_);
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
