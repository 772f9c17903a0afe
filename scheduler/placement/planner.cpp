// SPDX-License-Identifier: MIT
// Prices, mixes of layers, policies: candidates from all of them, replayed by one model.
#include "scheduler/placement/planner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "engine/base/check.h"
#include "scheduler/placement/exact_search.h"
#include "scheduler/placement/layer_mix.h"
#include "scheduler/placement/plan_refine.h"
#include "scheduler/placement/replays.h"

namespace ballast::scheduler {

namespace {

// Above this gap a second, wider search for mixes is worth its time.
constexpr double kWideSearchGap = 0.02;
constexpr std::size_t kWideSearchGroups = 400;  // it is not, of longer chains
// Above this one, moves from the plan found are; and how much work they may be.
constexpr double kRefineGap = 0.02;
constexpr int kRefineSteps = 60000;
constexpr int kRefineReplays = 20;
constexpr int kRefineStepsShort = 400000;
constexpr int kRefineReplaysShort = 600;
// Candidates whose prefill is looked at; the others are behind in decode already.
constexpr std::size_t kPrefillTried = 4;
// Mixes that are replayed when a plan was there before: a new budget has to be met in a hurry.
constexpr int kWarmPlans = 5;
constexpr int kAllPlans = 1000;

StepOptions step_options(const PlanRequest& request, bool prefill) {
    return {.shape = {.tokens = prefill ? request.prefill_tokens : 1,
                      .depth = prefill ? 0 : request.depth},
            .hops = request.hops,
            .locality = request.locality};
}

}  // namespace

class Replanner::Planner {
  public:
    Planner(const PlanRequest& request, const Prices& start)
        : request_(request),
          decode_model_(*request.catalog, request.costs, step_options(request, false)),
          prefill_model_(*request.catalog, request.costs, step_options(request, true)),
          decode_(decode_model_, request.reserve, request.ladder),
          replays_(decode_, prefill_model_, request.reserve, request.ladder) {
        BALLAST_CHECK(request.reserve.unified_memory == decode_model_.unified());
        decode_bound_.prices = start;
        if (has_prefill()) {
            prefill_.emplace(prefill_model_, request.reserve, request.ladder);
        }
    }

    PlanResult plan() {
        begin();
        if (has_prefill()) {
            const auto all = static_cast<double>(request_.catalog->total_bytes());
            decode_.estimate_prefill(prefill_model_, all <= request_.memory_bytes);
        }
        const double weight = has_both() ? prefill_in_decode() : 0.0;
        mixer_.emplace(decode_, bound_.prices, MixEffort{.prefill_weight = weight});
        search(*mixer_);
        if (gap() > kWideSearchGap && decode_.n_groups() <= kWideSearchGroups) {
            const LayerMixer wide(
                decode_,
                bound_.prices,
                {.kinds_tried = 40000, .kinds = 312, .plans = 32, .prefill_weight = weight});
            search(wide);
        }
        if (gap() > kWideSearchGap && is_mostly_prefill()) {
            // The estimates of prefill that rank mixes leave out its ring; decode's are better, and
            // what is good for one is often good for the other.
            search(LayerMixer(decode_, decode_bound_.prices, {}));
        }
        return end();
    }

    PlanResult replan(double memory_bytes) {
        if (!mixer_) {
            request_.memory_bytes = memory_bytes;
            return plan();
        }
        request_.memory_bytes = memory_bytes;
        warm_ = true;
        begin();
        search(*mixer_);
        return end();
    }

  private:
    void begin() {
        result_ = {};
        replays_.start(request_.memory_bytes);
        bound();
        try_policies();
    }
    PlanResult end() {
        search_short_chain();
        refine();
        prefer_simple();
        result_.prices = bound_.prices;
        result_.gap = gap();
        return std::move(result_);
    }

    /// Few moves from the best plan so far, if it may be far from the best there is.
    void refine() {
        if (warm_ || gap() <= kRefineGap || decode_.n_groups() > kWideSearchGroups) {
            return;
        }
        const bool is_short = decode_.n_groups() <= kExactGroupsMax;
        ForecastPlacement start = result_.plan;
        if (!has_prefill()) {
            for (GroupPlacement& placed : start.placement.groups) {
                placed.prefill_streamed = 0;  // chosen below
            }
        }
        const Refined refined =
            refine_plan({.decode = &decode_,
                         .prefill = &prefill_model_,
                         .reserve = request_.reserve,
                         .ladder = request_.ladder,
                         .memory_bytes = request_.memory_bytes,
                         .decode_weight = request_.decode_weight,
                         .prefill_weight = request_.prefill_weight / request_.prefill_tokens,
                         .good_enough = result_.mix_bound_seconds * (1.0 + kRefineGap / 2),
                         .max_steps = is_short ? kRefineStepsShort : kRefineSteps,
                         .max_replays = is_short ? kRefineReplaysShort : kRefineReplays,
                         .thorough = is_short},
                        {std::move(start.placement), start.decode_seconds, start.prefill_seconds});
        if (has_prefill()) {
            consider({.placement = refined.placement,
                      .decode_seconds = refined.decode_seconds,
                      .prefill_seconds = refined.prefill_seconds});
        }
        consider(with_prefill(refined.placement, refined.decode_seconds));
    }

    bool has_prefill() const { return request_.prefill_weight > 0.0; }

    double objective(double decode_seconds, double prefill_seconds) const {
        return request_.decode_weight * decode_seconds +
               request_.prefill_weight * prefill_seconds / request_.prefill_tokens;
    }
    double objective(const ForecastPlacement& plan) const {
        return objective(plan.decode_seconds, plan.prefill_seconds);
    }
    double gap() const {
        const double bound = result_.mix_bound_seconds;
        return bound > 0.0 ? std::max(objective(result_.plan) / bound - 1.0, 0.0) : 0.0;
    }
    /// What a second of prefill counts beside one of decode.
    double prefill_in_decode() const {
        return request_.prefill_weight / request_.prefill_tokens / request_.decode_weight;
    }
    bool is_mostly_prefill() const {
        return has_both() && objective(0.0, result_.prefill_bound_seconds) >
                                 objective(result_.decode_bound_seconds, 0.0);
    }
    bool has_both() const { return has_prefill() && request_.decode_weight > 0.0; }

    void bound() {
        PriceDual dual(decode_);
        const PriceDual::Bound decode = bound_with_ring(dual, request_.memory_bytes, decode_bound_);
        result_.decode_bound_seconds = decode.seconds;
        decode_bound_ = decode;
        if (has_prefill()) {
            PriceDual prefill_dual(*prefill_);
            const PriceDual::Bound prefill =
                bound_with_ring(prefill_dual, request_.memory_bytes, prefill_bound_);
            result_.prefill_bound_seconds = prefill.seconds;
            result_.n_chains += prefill_dual.n_chains();
            if (!warm_) {
                floor_price_ = prefill.prices.link;
            }
            prefill_bound_ = prefill;
        }
        if (has_both()) {
            bound_both(dual, warm_ ? bound_ : decode);
        } else {
            bound_ = decode;
        }
        result_.n_chains += dual.n_chains();
        result_.mix_bound_seconds =
            std::max(result_.mix_bound_seconds,
                     objective(result_.decode_bound_seconds, result_.prefill_bound_seconds));
    }

    /// The two bounds by themselves may each give the memory to something else. Here each division
    /// also pays what it does to prefill.
    void bound_both(PriceDual& dual, const PriceDual::Bound& start) {
        const ExtraCosts extra = [&](double piece_limit) { return floor(piece_limit); };
        bound_ = bound_with_ring(dual, request_.memory_bytes, start, extra);
        result_.mix_bound_seconds = bound_.seconds * request_.decode_weight;
    }

    /// What each division adds to decode by its prefill; any price of the link gives a bound, so
    /// that it is worked out for one.
    const std::vector<std::vector<double>>& floor(double piece_limit) {
        const auto [known, is_new] = floors_.try_emplace(piece_limit);
        if (is_new) {
            known->second = prefill_floor(decode_, *prefill_, floor_price_, piece_limit);
            for (std::vector<double>& of_type : known->second) {
                for (double& cost : of_type) {
                    cost *= prefill_in_decode();
                }
            }
        }
        return known->second;
    }

    /// Adds prefill to a placement.
    ForecastPlacement with_prefill(const Placement& placement, double decode_seconds) {
        const PrefillChoice& choice = replays_.with_prefill(placement);
        return {.placement = choice.placement,
                .decode_seconds = decode_seconds,
                .prefill_seconds = choice.seconds};
    }

    /// Whether the executor can follow it: other policies divide groups of experts.
    bool can_follow(const Placement& placement) const {
        if (request_.ladder.splits) {
            return true;
        }
        for (std::size_t i = 0; i < placement.groups.size(); ++i) {
            const GroupPlacement& placed = placement.groups[i];
            const int parts = request_.catalog->groups[i].parts;
            if ((placed.resident != 0 || placed.shared_on_device) && placed.resident != parts) {
                return false;
            }
        }
        return true;
    }

    void consider(const ForecastPlacement& candidate) {
        if (!can_follow(candidate.placement)) {
            return;
        }
        if (result_.plan.placement.groups.empty() ||
            objective(candidate) < objective(result_.plan)) {
            result_.plan = candidate;
        }
    }

    /// Takes the best of the other policies if it is almost as fast: dividing groups keeps both
    /// sides busy, and a small gain is not worth the CPU's time.
    void prefer_simple() {
        const PolicyForecast* simplest = nullptr;
        for (const PolicyForecast& policy : result_.policies) {
            if (policy.best && can_follow(policy.best->placement) &&
                (simplest == nullptr || objective(*policy.best) < objective(*simplest->best))) {
                simplest = &policy;
            }
        }
        if (simplest != nullptr && objective(*simplest->best) <=
                                       objective(result_.plan) * (1.0 + request_.simple_within)) {
            result_.plan = *simplest->best;
        }
    }

    void try_policies() {
        for (const Policy policy : {Policy::kCpuOnly,
                                    Policy::kWholeLayers,
                                    Policy::kExpertsLast,
                                    Policy::kStatic,
                                    Policy::kStaticStreaming}) {
            PolicyForecast forecast = {.policy = policy};
            if (policy == Policy::kStaticStreaming && (!request_.ladder.streams || warm_)) {
                continue;  // it could not be followed, or is too many plans to look at again
            }
            std::optional<Placement> fastest;
            double seconds = std::numeric_limits<double>::infinity();
            for (Placement& placement : policy_placements(policy,
                                                          *request_.catalog,
                                                          policy_memory(policy),
                                                          request_.reserve,
                                                          decode_model_.unified())) {
                const double decode = replays_.decode_seconds(placement, seconds);
                if (decode < seconds) {
                    seconds = decode;
                    fastest = std::move(placement);
                }
            }
            if (fastest && policy == Policy::kCpuOnly) {
                const double prefill = prefill_model_.seconds(*fastest);
                forecast.best = {.placement = std::move(*fastest),
                                 .decode_seconds = seconds,
                                 .prefill_seconds = prefill};
                consider(*forecast.best);
            } else if (fastest) {
                forecast.best = with_prefill(*fastest, seconds);
                consider(*forecast.best);
            }
            result_.policies.push_back(std::move(forecast));
        }
    }

    /// Sizes of a ring that prefill may want beside decode's: streaming what is not resident is
    /// worth the memory of a large one, or of none.
    std::vector<double> rings() const {
        if (!has_prefill() || decode_model_.unified() || !request_.ladder.prefill_streams) {
            return {0.0};
        }
        return {kRingBytesMax, 0.0};
    }
    double policy_memory(Policy policy) const {
        // All on the device needs no ring; the other policies' rings are their own business.
        return policy == Policy::kCpuOnly ? 0.0 : request_.memory_bytes;
    }

    /// What it adds to a token of decode, roughly.
    double prefill_estimate(const Choice& choice) const {
        if (!has_both()) {
            return 0.0;
        }
        double seconds = 0.0;
        for (std::size_t i = 0; i < choice.size(); ++i) {
            seconds += decode_.option(i, choice[i]).prefill_seconds;
        }
        return seconds * prefill_in_decode();
    }

    Placement placement_of(const Choice& choice) const {
        Placement placement;
        placement.groups.reserve(choice.size());
        for (std::size_t i = 0; i < choice.size(); ++i) {
            placement.groups.push_back(decode_.option(i, choice[i]).placed);
        }
        return placement;
    }

    void search(const LayerMixer& mixer) {
        for (const double ring : rings()) {
            const double limit = request_.memory_bytes - ring;
            if (limit > 0.0) {
                search_within(limit, mixer);
            }
        }
    }

    /// Of a short chain the best choice among few options a group.
    void search_short_chain() {
        if (decode_.n_groups() > kExactGroupsMax) {
            return;
        }
        std::vector<std::vector<int>> allowed(decode_.n_groups());
        for (std::size_t group = 0; group < allowed.size(); ++group) {
            allowed[group] = options_to_search(decode_, group, bound_.prices.memory);
        }
        for (const double ring : rings()) {
            const auto exact = exact_choice(decode_, request_.memory_bytes - ring, allowed);
            if (exact) {
                consider(with_prefill(placement_of(exact->choice), exact->seconds));
            }
        }
    }

    std::size_t prefills_tried() const {
        return has_prefill() && !warm_ ? kPrefillTried : std::size_t{1};
    }

    void search_within(double limit, const LayerMixer& mixer) {
        std::vector<Candidate> candidates;
        const auto add = [&](std::vector<Choice> choices) {
            for (Choice& choice : choices) {
                const double prefill = prefill_estimate(choice);
                const double least = replays_.least_seconds(choice) + prefill;
                candidates.push_back(
                    {.least = least, .prefill = prefill, .choice = std::move(choice)});
            }
        };
        add(mixer.plans(limit, warm_ ? kWarmPlans : kAllPlans, bound_.prices));
        if (!warm_) {
            PriceDual dual(decode_);
            add(splice_chains(decode_, dual, bound_, limit));
        }
        for (const Candidate& best : replayed(std::move(candidates))) {
            // Where its prefill could not be fast enough, it need not be known.
            if (objective(best.seconds, result_.prefill_bound_seconds) < objective(result_.plan)) {
                consider(with_prefill(placement_of(best.choice), best.seconds));
            }
        }
    }

    struct Candidate {
        double least = 0.0;    // no replay, with its prefill, takes less
        double prefill = 0.0;  // estimated, weighted
        double seconds = 0.0;  // of decode, replayed
        Choice choice;
    };

    /// The few best by their replays. Those whose least is above the best are not replayed.
    std::vector<Candidate> replayed(std::vector<Candidate> candidates) {
        std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
            return a.least < b.least;
        });
        const auto is_faster = [](const Candidate& a, const Candidate& b) {
            return a.seconds + a.prefill < b.seconds + b.prefill;
        };
        std::vector<Candidate> best;
        for (Candidate& candidate : candidates) {
            const bool full = best.size() == prefills_tried();
            if (full && candidate.least >= best.back().seconds + best.back().prefill) {
                break;
            }
            candidate.seconds = replays_.decode_seconds(candidate.choice);
            best.insert(std::upper_bound(best.begin(), best.end(), candidate, is_faster),
                        std::move(candidate));
            if (best.size() > prefills_tried()) {
                best.pop_back();
            }
        }
        return best;
    }

    PlanRequest request_;
    StepModel decode_model_;
    StepModel prefill_model_;
    OptionTable decode_;
    std::optional<OptionTable> prefill_;
    Replays replays_;

    // Of the last plan, where the next may start.
    bool warm_ = false;
    PriceDual::Bound decode_bound_;
    // Prefill streams what is not resident, in whatever pieces.
    PriceDual::Bound prefill_bound_ = {.piece_limit = std::numeric_limits<double>::infinity()};
    double floor_price_ = 0.0;
    std::map<double, std::vector<std::vector<double>>> floors_;  // by limit of pieces
    std::optional<LayerMixer> mixer_;

    PriceDual::Bound bound_;  // of decode, or of the mix where there is one
    PlanResult result_;
};

Replanner::Replanner(const PlanRequest& request, const Prices& start)
    : planner_(std::make_unique<Planner>(request, start)) {
    BALLAST_CHECK(request.prefill_weight >= 0.0 && request.decode_weight >= 0.0 &&
                  request.prefill_weight + request.decode_weight > 0.0);
}

Replanner::~Replanner() = default;

PlanResult Replanner::plan() {
    return planner_->plan();
}

PlanResult Replanner::replan(double memory_bytes) {
    return planner_->replan(memory_bytes);
}

PlanResult make_plan(const PlanRequest& request, const Prices& start) {
    BALLAST_CHECK(request.catalog != nullptr && request.prefill_tokens >= 2);
    return Replanner(request, start).plan();
}

}  // namespace ballast::scheduler
