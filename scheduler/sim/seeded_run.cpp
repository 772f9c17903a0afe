// SPDX-License-Identifier: MIT
// Requests come and go one after the other; while there is none, nothing runs.
#include "scheduler/sim/seeded_run.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "scheduler/sim/session_rules.h"

namespace ballast::scheduler {

namespace {

constexpr double kGiga = 1e9;
constexpr double kIdealShare = 0.95;
// Long enough for a rate, also where it is somewhat above the ideal: planned is not simulated.
constexpr double kMeasureSeconds = 5.0;
constexpr double kAboveIdeal = 1.5;
// An average with a half-life of four samples is within a percent after 28 of them, and there is
// one each tenth of a second.
constexpr double kFilterSeconds = 2.8;

TensorCatalog catalog_for(const SeededOptions& options) {
    auto catalog = catalog_of(options.shape, options.quant);
    BALLAST_CHECK(catalog.has_value());
    return std::move(*catalog);
}

class Run {
  public:
    Run(std::uint64_t seed, Mutation mutation)
        : options_(draw_options(seed)),
          mutation_(mutation),
          catalog_(catalog_for(options_)),
          question_({.catalog = &catalog_,
                     .hardware = options_.hardware,
                     .context = options_.context,
                     .prefill_weight = 0.0,
                     .locality = options_.locality,
                     .hops = options_.hops}),
          plans_(question_,
                 {.depth = options_.context / 2,
                  .prefill_tokens = 2,
                  .memory_bytes = options_.hardware.device_memory_gb * kGiga}),
          times_({.catalog = &catalog_,
                  .hardware = options_.hardware,
                  .depth = options_.context / 2,
                  .hops = options_.hops,
                  .locality = options_.locality}),
          residency_(catalog_, plans_.reserve()),
          memory_(device_memory(
              options_.session.trace.samples, plans_.memory_bytes(), plans_.device_bytes())),
          monitor_(options_.session.trace.samples, memory_.total_bytes, options_.session.seen),
          told_(monitor_, memory_),
          invariants_(told_,
                      {.cap_bytes = memory_.cap_bytes,
                       .growth = options_.session.rules.growth,
                       .late_most = options_.session.seen.lag + options_.session.seen.jitter}) {}

    SeededResult run();

  private:
    void add_last_request();
    double recovery_seconds() const;
    Nanoseconds deadline() const;
    void answer(SessionWorld& world, OurRule& rule);
    bool step(SessionWorld& world, OurRule& rule);
    void check_requests(const SessionWorld& world);
    void check_recovery(const SessionWorld& world);

    SeededOptions options_;
    Mutation mutation_;
    TensorCatalog catalog_;
    PlanQuestion question_;
    PlanBook plans_;
    StepTimes times_;
    Residency residency_;
    DeviceMemory memory_;
    SimMonitor monitor_;
    ToldMonitor told_;
    Invariants invariants_;
    std::vector<int> made_ = {};  // tokens, by request
    std::vector<bool> ended_ = {};
    double alone_seconds_ = 0.0;  // of a step on the CPU
    double ideal_rate_ = 0.0;
    double recovered_share_ = 0.0;
};

/// How long a scheduler may take to be back: it waits for quiet, tries the device again, waits for
/// the bucket, uploads, and swaps for the last twentieth only once the lack has cost as much.
double Run::recovery_seconds() const {
    const LoadRules& rules = options_.session.rules;
    const auto bytes =
        static_cast<double>(std::min<std::uint64_t>(memory_.cap_bytes, catalog_.total_bytes()));
    const double link = options_.hardware.link_gbps * kGiga;
    const double upload = link > 0.0 ? bytes / link : 0.0;
    const double swap = (2.0 * to_seconds(kChangeStall) + upload) / (1.0 - kIdealShare);
    return to_seconds(rules.growth.wait_most + rules.retry_most + kResetTime +
                      rules.growth.refill) +
           kFilterSeconds + std::max(2.0, 1.5 * upload) + swap;
}

/// Even the CPU alone would have answered all by then.
Nanoseconds Run::deadline() const {
    double tokens = 0.0;
    for (const SeededRequest& request : options_.requests) {
        tokens += request.tokens;
    }
    return options_.safety_end + to_nanoseconds(1.2 * tokens * alone_seconds_ + 10.0);
}

void Run::add_last_request() {
    alone_seconds_ = times_.seconds(cpu_only(catalog_), {});
    const double with_device = times_.seconds(plans_.plan(memory_.cap_bytes, {}), {});
    ideal_rate_ = 1.0 / std::min(alone_seconds_, with_device);
    const double seconds = kAboveIdeal * (recovery_seconds() + kMeasureSeconds);
    options_.requests.push_back(
        {.at = options_.safety_end, .tokens = static_cast<int>(std::ceil(seconds * ideal_rate_))});
    made_.resize(options_.requests.size());
    ended_.resize(options_.requests.size());
}

bool Run::step(SessionWorld& world, OurRule& rule) {
    world.wait_until_awake();
    if (world.ended()) {
        return false;
    }
    rule.before_step();
    world.wait_until_awake();
    if (world.ended()) {
        return false;
    }
    const auto seconds = world.run_step(rule.watcher());
    rule.after_step(seconds);
    return seconds.has_value();
}

void Run::answer(SessionWorld& world, OurRule& rule) {
    for (std::size_t i = 0; i < options_.requests.size() && !world.ended(); ++i) {
        const SeededRequest& request = options_.requests[i];
        world.wait(request.at, rule.watcher());
        invariants_.note(world.now(), "begin", i);
        while (made_[i] < request.tokens && !world.ended()) {
            if (step(world, rule)) {
                ++made_[i];
                invariants_.note(world.now(), "token", world.held_bytes());
            } else if (mutation_ == Mutation::kLoseRequests) {
                break;
            }
        }
        ended_[i] = made_[i] == request.tokens;
        invariants_.note(world.now(), "end", i);
    }
}

void Run::check_requests(const SessionWorld& world) {
    std::size_t made = 0;
    for (std::size_t i = 0; i < options_.requests.size(); ++i) {
        made += static_cast<std::size_t>(made_[i]);
        if (!ended_[i]) {
            invariants_.broken(
                Invariant::kRequestsEnd,
                world.now(),
                fmt::format(
                    "request {} has {} tokens of {}", i, made_[i], options_.requests[i].tokens));
        }
    }
    const double counted = world.result().tokens;
    if (made != world.result().steps.size() ||
        (!world.ended() && std::abs(counted - static_cast<double>(made)) > 1e-6 * counted)) {
        invariants_.broken(Invariant::kRequestsEnd,
                           world.now(),
                           fmt::format("requests have {} tokens of {} steps, {:.3f} are counted",
                                       made,
                                       world.result().steps.size(),
                                       counted));
    }
}

void Run::check_recovery(const SessionWorld& world) {
    const Nanoseconds from = options_.safety_end + to_nanoseconds(recovery_seconds());
    int n = 0;
    Nanoseconds begin{0};
    Nanoseconds end{0};
    for (const SessionStep& step : world.result().steps) {
        if (step.begin >= from) {
            begin = n == 0 ? step.begin : begin;
            end = step.end;
            ++n;
        }
    }
    recovered_share_ = n > 0 ? n / to_seconds(end - begin) / ideal_rate_ : 0.0;
    if (recovered_share_ < kIdealShare) {
        invariants_.broken(
            Invariant::kDeviceIsUsed,
            world.now(),
            fmt::format("{} steps from {:.3f} s on have {:.1f}% of the ideal rate, {:.2f} a second",
                        n,
                        to_seconds(from),
                        100.0 * recovered_share_,
                        ideal_rate_));
    }
}

SeededResult Run::run() {
    const std::string text = options_.text();
    add_last_request();
    SessionOptions session = options_.session;
    if (mutation_ == Mutation::kGrowWithoutPause) {
        session.rules.growth = {.wait_least = Nanoseconds{0},
                                .wait_most = Nanoseconds{0},
                                .refill = Nanoseconds{1},
                                .burst_budgets = 1e6};
    }
    MutantWorld world({.times = times_,
                       .residency = residency_,
                       .reserve = plans_.reserve(),
                       .truths = load_truths(session.trace.samples, memory_),
                       .duration = deadline(),
                       .safety_end = options_.safety_end},
                      mutation_);
    world.tell(&invariants_);
    OurRule rule({.world = &world,
                  .plans = &plans_,
                  .residency = &residency_,
                  .monitor = &told_,
                  .memory = memory_},
                 session);
    rule.begin();
    answer(world, rule);
    check_requests(world);
    check_recovery(world);
    return {.options = text,
            .violations = invariants_.violations(),
            .log = invariants_.log(),
            .log_hash = invariants_.hash(),
            .n_requests = static_cast<int>(options_.requests.size()),
            .n_steps = static_cast<int>(world.result().steps.size()),
            .n_steps_redone = world.result().n_steps_redone,
            .n_uploads = invariants_.n_uploads(),
            .moves_most = invariants_.moves_most(),
            .ended_seconds = to_seconds(world.now()),
            .recovered_share = recovered_share_};
}

}  // namespace

std::string SeededResult::failure(std::uint64_t seed) const {
    std::string text;
    for (const Violation& violation : violations) {
        text += fmt::format("seed {}: broken at {:.6f} s: {}: {}\n",
                            seed,
                            to_seconds(violation.time),
                            invariant_name(violation.invariant),
                            violation.what);
    }
    return text;
}

SeededResult run_seed(std::uint64_t seed, Mutation mutation) {
    return Run(seed, mutation).run();
}

}  // namespace ballast::scheduler
