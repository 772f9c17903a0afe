// SPDX-License-Identifier: MIT
// Plans once, then learns from measured times.
#include "scheduler/tensor_scheduler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/base/check.h"

namespace ballast::scheduler {

namespace {

constexpr std::size_t kDecisionsMax = 256;
// What is looked at in a step: learning needs no more, and the step's time is not ours. A run of
// more groups than this waits for some steps.
constexpr std::size_t kRunsPerStep = 128;
constexpr std::size_t kGroupsPerStep = 2048;
// The forecast follows the cost model after this many steps.
constexpr int kStepsToRefresh = 64;
constexpr double kSmoothing = 1.0 / 8.0;
// Plans for parts of the device are made in steps of this share of it, or of so many bytes.
constexpr double kMemorySteps = 256.0;
constexpr double kMemoryStepLeast = 64.0 * 1024.0;

/// What a step or a run can have taken; a clock that went wrong says something else.
bool is_duration(double seconds) {
    return std::isfinite(seconds) && seconds > 0.0;
}

/// Adds the time from construction to destruction.
class Stopwatch {
  public:
    Stopwatch(const Clock& clock, std::mutex& mutex, double& total)
        : clock_(clock), mutex_(mutex), total_(total), begin_(clock.now()) {}
    ~Stopwatch() {
        const std::lock_guard lock(mutex_);
        total_ += to_seconds(clock_.now() - begin_);
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

  private:
    const Clock& clock_;
    std::mutex& mutex_;
    double& total_;
    Nanoseconds begin_;
};

/// A whole group's work for one token.
Work decode_work(const TensorGroup& group, int depth) {
    Work work = group_work(group, {.tokens = 1, .depth = depth});
    work.bytes += static_cast<double>(group.expert_bytes) * group.experts_used;
    work.flops += 2.0 * static_cast<double>(group.expert_weights) * group.experts_used;
    return work;
}

double smoothed(double known, double measured) {
    return known > 0.0 ? known + kSmoothing * (measured - known) : measured;
}

}  // namespace

TensorScheduler::TensorScheduler(SchedulerSetup setup, const Clock& clock)
    : setup_(std::move(setup)), clock_(clock), residency_(setup_.catalog, setup_.reserve) {
    const Stopwatch watch(clock_, mutex_, state_.scheduler_seconds);
    if (setup_.hardware) {
        costs_.emplace(*setup_.hardware);
    }
    make_first_plan();
}

std::shared_ptr<const Plan> TensorScheduler::plan() const {
    const std::lock_guard lock(mutex_);
    return state_.plan;
}

SchedulerState TensorScheduler::state() const {
    const std::lock_guard lock(mutex_);
    SchedulerState state = state_;
    state.decisions.assign(decisions_.begin(), decisions_.end());
    return state;
}

double TensorScheduler::usable(double device_bytes) const {
    const bool has_device = setup_.hardware && setup_.hardware->has_device;
    return has_device ? device_bytes : 0.0;
}

void TensorScheduler::make_first_plan() {
    Plan plan = best_plan(setup_.device_bytes);
    plan.version = 1;
    const std::string text = "Plan 1: " + plan.reason + ".";
    {
        const std::lock_guard lock(mutex_);
        state_.has_hardware = costs_.has_value();
        state_.plan = std::make_shared<const Plan>(std::move(plan));
    }
    refresh_curve();
    decide("start", text);
}

Plan TensorScheduler::plan_for(double device_bytes) {
    const Stopwatch watch(clock_, mutex_, state_.scheduler_seconds);
    return best_plan(device_bytes);
}

Plan TensorScheduler::best_plan(double device_bytes, const MachineShares& shares) const {
    Plan plan = {.placement = cpu_only(setup_.catalog)};
    if (!costs_) {
        plan.reason = "everything on the CPU: this machine has not been measured yet";
        return plan;
    }
    if (usable(device_bytes) <= 0.0) {
        const bool without = usable(1.0) <= 0.0;
        plan.reason = without ? "everything on the CPU: there is no device"
                              : "everything on the CPU: nothing of the device may be used";
        plan.forecast = forecast(plan.placement, device_bytes);
        return plan;
    }
    const PlanResult result = make_plan({.catalog = &setup_.catalog,
                                         .costs = plan_costs(shares),
                                         .memory_bytes = usable(device_bytes),
                                         .reserve = setup_.reserve,
                                         .depth = setup_.context / 2,
                                         .prefill_tokens = setup_.prefill_tokens,
                                         .prefill_weight = 4.0,
                                         .decode_weight = 1.0,
                                         .ladder = setup_.ladder});
    plan.placement = result.plan.placement;
    plan.forecast = forecast(plan.placement, device_bytes);
    plan.forecast.gap = result.gap;
    plan.reason = sentence_of(plan);
    return plan;
}

std::string TensorScheduler::sentence_of(const Plan& plan) const {
    return fmt::format(
        "{} of {} groups on the device, {:.1f} ms a token where the CPU alone would take {:.1f}",
        plan.placement.n_on_device(),
        plan.placement.groups.size(),
        1e3 * plan.forecast.decode_seconds,
        1e3 * plan.forecast.cpu_decode_seconds);
}

Plan TensorScheduler::plan_of(const Placement& placement, double device_bytes) {
    const Stopwatch watch(clock_, mutex_, state_.scheduler_seconds);
    Plan plan = {.placement = placement};
    if (!costs_) {
        plan.reason = "this machine has not been measured yet";
        return plan;
    }
    plan.forecast = forecast(placement, device_bytes);
    const auto best = share_plans_.find(share_key(device_bytes, {}));
    if (best != share_plans_.end() && best->second.forecast.decode_seconds > 0.0) {
        const Forecast& of = best->second.forecast;
        plan.forecast.gap =
            std::max(0.0, (1.0 + of.gap) * plan.forecast.decode_seconds / of.decode_seconds - 1.0);
    }
    plan.reason = sentence_of(plan);
    return plan;
}

TensorScheduler::ShareKey TensorScheduler::share_key(double bytes,
                                                     const MachineShares& shares) const {
    const double all = setup_.hardware ? 1e9 * setup_.hardware->device_memory_gb : 0.0;
    const double step = std::max(kMemoryStepLeast, all / kMemorySteps);
    const auto percent = [](double share) {
        return static_cast<std::int64_t>(std::lround(100.0 * share));
    };
    const MachineShares of = rounded(shares);
    return {static_cast<std::int64_t>(bytes / step),
            percent(of.device),
            percent(of.link),
            percent(of.cpu),
            of.uploading ? 1 : 0};
}

const Placement& TensorScheduler::share_plan(std::uint64_t memory_bytes,
                                             const MachineShares& shares) {
    const Stopwatch watch(clock_, mutex_, state_.scheduler_seconds);
    MachineShares of = rounded(shares);
    of.uploading = false;
    const auto bytes = static_cast<double>(memory_bytes);
    const ShareKey key = share_key(bytes, of);
    const auto found = share_plans_.find(key);
    if (found == share_plans_.end()) {
        return share_plans_.emplace(key, best_plan(bytes, of)).first->second.placement;
    }
    // Another budget of the same step may have had a little more room.
    Plan& plan = found->second;
    if (device_bytes(setup_.catalog, plan.placement, setup_.reserve).total() > memory_bytes) {
        plan = best_plan(bytes, of);
    }
    return plan.placement;
}

const StepModel& TensorScheduler::step_model(const MachineShares& shares) {
    const ShareKey key = share_key(0.0, shares);
    const auto found = step_models_.find(key);
    if (found != step_models_.end()) {
        return found->second;
    }
    const StepOptions options{.shape = {.tokens = 1, .depth = setup_.context / 2}};
    const StepModel model(setup_.catalog, plan_costs(rounded(shares)), options);
    return step_models_.emplace(key, model).first->second;
}

void TensorScheduler::adopt(Plan next,
                            double device_bytes,
                            const std::string& cause,
                            const std::string& why) {
    const Stopwatch watch(clock_, mutex_, state_.scheduler_seconds);
    setup_.device_bytes = device_bytes;
    next.version = plan()->version + 1;
    const std::string text = fmt::format("{} Plan {}: {}.", why, next.version, next.reason);
    {
        const std::lock_guard lock(mutex_);
        state_.plan = std::make_shared<const Plan>(std::move(next));
    }
    refresh_curve();
    decide(cause, text);
}

Forecast TensorScheduler::forecast(const Placement& placement, double device_bytes) const {
    Forecast forecast = {.depth = setup_.context / 2, .prefill_tokens = setup_.prefill_tokens};
    const StepShape decode = {.tokens = 1, .depth = forecast.depth};
    const StepShape prefill = {.tokens = forecast.prefill_tokens, .depth = 0};
    const CostModel costs = plan_costs();
    forecast.decode_seconds = predicted(costs, decode, placement);
    forecast.prefill_seconds = predicted(costs, prefill, placement);
    forecast.cpu_decode_seconds = predicted(costs, decode, cpu_only(setup_.catalog));
    forecast.decode_bound_seconds = bound(decode, device_bytes);
    forecast.prefill_bound_seconds = bound(prefill, device_bytes);
    return forecast;
}

CostModel TensorScheduler::plan_costs(const MachineShares& shares) const {
    const CostModel costs = setup_.plans_by_profile ? CostModel(*setup_.hardware) : *costs_;
    return costs.on(scaled(costs.hardware(), shares));
}

double TensorScheduler::predicted(const CostModel& costs,
                                  const StepShape& step,
                                  const Placement& placement) const {
    return StepModel(setup_.catalog, costs, {.shape = step}).seconds(placement);
}

double TensorScheduler::bound(const StepShape& step, double device_bytes) const {
    return step_bound_seconds(
        costs_->hardware(), setup_.catalog, step, Locality::kUniform, usable(device_bytes));
}

void TensorScheduler::refresh_curve() {
    since_refresh_ = 0;
    if (!setup_.plans_by_profile) {
        step_models_.clear();
    }
    if (!costs_) {
        return;
    }
    const Placement& placement = state_.plan->placement;
    for (std::size_t i = 0; i < Curve::kPoints; ++i) {
        const int depth =
            static_cast<int>(static_cast<std::size_t>(setup_.context) * i / (Curve::kPoints - 1));
        const StepShape shape = {.tokens = 1, .depth = depth};
        curve_.depth[i] = depth;
        curve_.seconds[i] = predicted(*costs_, shape, placement);
        curve_.bound[i] = bound(shape, setup_.device_bytes);
    }
}

void TensorScheduler::set_hardware(HardwareProfile hardware) {
    const Stopwatch watch(clock_, mutex_, state_.scheduler_seconds);
    // What was learnt was about the old figures.
    setup_.hardware = std::move(hardware);
    costs_.emplace(*setup_.hardware);
    share_plans_.clear();
    step_models_.clear();
    Plan next = *plan();
    ++next.version;
    next.forecast = forecast(next.placement, setup_.device_bytes);
    next.reason = "the same placement, forecast from this machine's measured profile";
    const std::string text = fmt::format("Plan {}: {}.", next.version, next.reason);
    {
        const std::lock_guard lock(mutex_);
        state_.has_hardware = true;
        state_.plan = std::make_shared<const Plan>(std::move(next));
    }
    refresh_curve();
    decide("profile", text);
}

void TensorScheduler::observe_decode(int depth, double seconds, std::span<const GroupTime> groups) {
    if (!costs_ || !is_duration(seconds)) {
        return;
    }
    const Stopwatch watch(clock_, mutex_, state_.scheduler_seconds);
    const std::size_t n_groups = setup_.catalog.groups.size();
    groups_due_ = std::min(groups_due_ + kGroupsPerStep, std::max(n_groups, kGroupsPerStep));
    const std::size_t n_looked_at = std::min(groups.size(), kRunsPerStep);
    for (std::size_t i = 0; i < n_looked_at; ++i) {
        const GroupTime& run = groups[next_run_ % groups.size()];
        const auto n_of_run = static_cast<std::size_t>(std::max(run.n_groups, 0));
        BALLAST_CHECK(n_of_run <= n_groups);
        if (n_of_run > groups_due_) {
            break;
        }
        groups_due_ -= n_of_run;
        ++next_run_;
        if (!is_duration(run.seconds) || run.first_group < 0) {
            continue;
        }
        double predicted = 0.0;
        std::array<bool, kPlacedClasses> kinds = {};
        const auto first = static_cast<std::size_t>(run.first_group);
        const std::size_t last = first + n_of_run;
        BALLAST_CHECK(last <= n_groups);
        for (std::size_t group = first; group < last; ++group) {
            const TensorGroup& of = setup_.catalog.groups[group];
            predicted +=
                costs_->seconds(run.side, of.kind, scaled(decode_work(of, depth), run.share));
            kinds[static_cast<std::size_t>(of.kind)] = true;
        }
        for (std::size_t kind = 0; kind < kinds.size() && predicted > 0.0; ++kind) {
            if (kinds[kind]) {
                costs_->observe(run.side, static_cast<GroupKind>(kind), predicted, run.seconds);
            }
        }
    }
    if (++since_refresh_ >= kStepsToRefresh) {
        refresh_curve();
    }
    std::size_t above = 1;
    while (above + 1 < Curve::kPoints && curve_.depth[above] < depth) {
        ++above;
    }
    const double step = curve_.depth[above] - curve_.depth[above - 1];
    const double at = step > 0.0 ? (depth - curve_.depth[above - 1]) / step : 0.0;
    const auto between = [&](const std::array<double, Curve::kPoints>& values) {
        return values[above - 1] + at * (values[above] - values[above - 1]);
    };
    const double predicted = between(curve_.seconds);
    const double bound = between(curve_.bound);
    const std::lock_guard lock(mutex_);
    state_.measured_seconds = smoothed(state_.measured_seconds, seconds);
    state_.predicted_seconds = smoothed(state_.predicted_seconds, predicted);
    state_.limit_fraction = smoothed(state_.limit_fraction, bound / seconds);
    state_.plan_fraction = smoothed(state_.plan_fraction, predicted / seconds);
}

void TensorScheduler::decide(const std::string& cause, std::string text) {
    const std::lock_guard lock(mutex_);
    ++state_.replans[cause];
    decisions_.push_back({.number = ++n_decisions_,
                          .unix_seconds = clock_.unix_seconds(),
                          .cause = cause,
                          .text = std::move(text)});
    if (decisions_.size() > kDecisionsMax) {
        decisions_.pop_front();
    }
}

}  // namespace ballast::scheduler
