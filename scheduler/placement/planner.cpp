// SPDX-License-Identifier: MIT
// Prices, mixes of layers, policies: candidates from all of them, replayed by one model.
#include "scheduler/placement/planner.h"

#include <algorithm>
#include <limits>

#include "engine/base/check.h"
#include "scheduler/placement/layer_mix.h"

namespace ballast::scheduler {

namespace {

// Above this gap a second, wider search for mixes is worth its time.
constexpr double kWideSearchGap = 0.02;
// Candidates whose prefill is looked at; the others are behind in decode already.
constexpr std::size_t kPrefillTried = 4;
constexpr std::array<double, 6> kPrefillShares = {1.0, 0.95, 0.9, 0.75, 0.5, 0.0};

StepOptions step_options(const PlanRequest& request, bool prefill) {
    return {.shape = {.tokens = prefill ? request.prefill_tokens : 1,
                      .depth = prefill ? 0 : request.depth},
            .hops = request.hops,
            .locality = request.locality};
}

class Planner {
  public:
    Planner(const PlanRequest& request, const Prices& start)
        : request_(request),
          start_(start),
          decode_model_(*request.catalog, request.costs, step_options(request, false)),
          prefill_model_(*request.catalog, request.costs, step_options(request, true)),
          decode_(decode_model_, request.reserve, request.ladder) {
        BALLAST_CHECK(request.reserve.unified_memory == decode_model_.unified());
    }

    PlanResult run() {
        bound_decode();
        bound_prefill();
        try_policies();
        search({});
        if (gap() > kWideSearchGap) {
            search({.kinds_tried = 40000, .kinds = 480, .plans = 64});
        }
        result_.gap = gap();
        return std::move(result_);
    }

  private:
    bool has_prefill() const { return request_.prefill_weight > 0.0; }

    double objective(double decode_seconds, double prefill_seconds) const {
        return request_.decode_weight * decode_seconds +
               request_.prefill_weight * prefill_seconds / request_.prefill_tokens;
    }
    double objective(const ForecastPlacement& plan) const {
        return objective(plan.decode_seconds, plan.prefill_seconds);
    }
    double gap() const {
        const double bound = objective(result_.decode_bound_seconds, result_.prefill_bound_seconds);
        return bound > 0.0 ? std::max(objective(result_.plan) / bound - 1.0, 0.0) : 0.0;
    }

    void bound_decode() {
        PriceDual dual(decode_);
        const PriceDual::Bound bound = bound_with_ring(dual, request_.memory_bytes, start_);
        result_.decode_bound_seconds = bound.seconds;
        result_.prices = bound.prices;
        result_.n_chains += dual.n_chains();
    }

    void bound_prefill() {
        if (!has_prefill()) {
            return;
        }
        const OptionTable table(prefill_model_, request_.reserve, request_.ladder);
        PriceDual dual(table);
        result_.prefill_bound_seconds = bound_with_ring(dual, request_.memory_bytes, {}).seconds;
        result_.n_chains += dual.n_chains();
    }

    /// Adds prefill to a placement: how much of what is not resident crosses the link, the same
    /// share of each group, and what the CPU computes meanwhile.
    ForecastPlacement with_prefill(Placement placement, double decode_seconds) const {
        const auto fits = [&](const Placement& tried) {
            const DeviceBytes bytes = device_bytes(*request_.catalog, tried, request_.reserve);
            return static_cast<double>(bytes.total()) <= request_.memory_bytes;
        };
        ForecastPlacement best = {.decode_seconds = decode_seconds,
                                  .prefill_seconds = std::numeric_limits<double>::infinity()};
        for (const double share : kPrefillShares) {
            const bool streams = share > 0.0;
            for (std::size_t i = 0; i < placement.groups.size(); ++i) {
                GroupPlacement& placed = placement.groups[i];
                const TensorGroup& group = request_.catalog->groups[i];
                const int rest = group.parts - placed.resident;
                placed.prefill_streamed = static_cast<int>(share * rest + 0.5);
            }
            if (streams && !fits(placement)) {
                continue;
            }
            const double seconds = prefill_model_.seconds(placement);
            if (seconds < best.prefill_seconds) {
                best.prefill_seconds = seconds;
                best.placement = placement;
            }
        }
        return best;
    }

    void consider(const ForecastPlacement& candidate) {
        if (result_.plan.placement.groups.empty() ||
            objective(candidate) < objective(result_.plan)) {
            result_.plan = candidate;
        }
    }

    void try_policies() {
        for (const Policy policy : {Policy::kCpuOnly,
                                    Policy::kWholeLayers,
                                    Policy::kExpertsLast,
                                    Policy::kStatic,
                                    Policy::kStaticStreaming}) {
            PolicyForecast forecast = {.policy = policy};
            std::optional<Placement> fastest;
            double seconds = std::numeric_limits<double>::infinity();
            for (Placement& placement : policy_placements(policy,
                                                          *request_.catalog,
                                                          policy_memory(policy),
                                                          request_.reserve,
                                                          decode_model_.unified())) {
                const double decode = decode_model_.seconds(placement);
                if (decode < seconds) {
                    seconds = decode;
                    fastest = std::move(placement);
                }
            }
            if (fastest) {
                forecast.best = with_prefill(std::move(*fastest), seconds);
                consider(*forecast.best);
            }
            result_.policies.push_back(std::move(forecast));
        }
    }

    /// Prefill streams what is not resident, for which there must be a ring.
    double ring_of_prefill() const {
        return has_prefill() && !decode_model_.unified()
                   ? static_cast<double>(kTileBytesMax) * kRingTiles
                   : 0.0;
    }
    double policy_memory(Policy policy) const {
        // All on the device needs no ring; the other policies' rings are their own business.
        return policy == Policy::kCpuOnly ? 0.0 : request_.memory_bytes;
    }

    double decode_seconds(const Choice& choice) {
        shares_.clear();
        for (std::size_t i = 0; i < choice.size(); ++i) {
            shares_.push_back(&decode_.option(i, choice[i]).cost);
        }
        return decode_model_.seconds(shares_);
    }

    Placement placement_of(const Choice& choice) const {
        Placement placement;
        placement.groups.reserve(choice.size());
        for (std::size_t i = 0; i < choice.size(); ++i) {
            placement.groups.push_back(decode_.option(i, choice[i]).placed);
        }
        return placement;
    }

    void search(const MixEffort& effort) {
        const double limit = request_.memory_bytes - ring_of_prefill();
        if (limit <= 0.0) {
            return;
        }
        struct Timed {
            double seconds = 0.0;
            Choice choice;
        };
        std::vector<Timed> timed;
        for (Choice& choice : mix_layers(decode_, limit, result_.prices, effort)) {
            const double seconds = decode_seconds(choice);
            timed.push_back({.seconds = seconds, .choice = std::move(choice)});
        }
        std::sort(timed.begin(), timed.end(), [](const Timed& a, const Timed& b) {
            return a.seconds < b.seconds;
        });
        for (std::size_t i = 0; i < std::min(timed.size(), has_prefill() ? kPrefillTried : 1);
             ++i) {
            consider(with_prefill(placement_of(timed[i].choice), timed[i].seconds));
        }
    }

    const PlanRequest& request_;
    Prices start_;
    StepModel decode_model_;
    StepModel prefill_model_;
    OptionTable decode_;
    std::vector<const ShareCost*> shares_;
    PlanResult result_;
};

}  // namespace

PlanResult make_plan(const PlanRequest& request, const Prices& start) {
    BALLAST_CHECK(request.catalog != nullptr && request.prefill_tokens >= 2);
    BALLAST_CHECK(request.prefill_weight >= 0.0 && request.decode_weight >= 0.0 &&
                  request.prefill_weight + request.decode_weight > 0.0);
    return Planner(request, start).run();
}

}  // namespace ballast::scheduler
