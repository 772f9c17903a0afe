// SPDX-License-Identifier: MIT
#include "tests/scheduler/placement/plan_quality.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "scheduler/profile/bound.h"

namespace ballast::test {

namespace {

constexpr double kExact = 1e-9;  // relative; what sums in another order differ by
constexpr double kSame = 1e-6;
// Where decode streams, the lane's rate follows the CPU and the CPU follows the lane: rounding
// grows from tile to tile. Seed 5305 takes 13 parts in a million less on a link 7e-16 faster.
constexpr double kSameStreamed = 1e-4;

class Judge {
  public:
    Judge(const Instance& instance, const scheduler::PlanRequest& request)
        : instance_(instance), request_(request) {}

    PlanQuality run() {
        const SystemClock clock;
        const auto begin = clock.now();
        result_ = scheduler::make_plan(request_);
        quality_.seconds = std::chrono::duration<double>(clock.now() - begin).count();
        quality_.name = instance_.name;
        quality_.experts = instance_.catalog.has_experts();
        quality_.unified = instance_.hardware.unified_memory;
        quality_.decode_bound = result_.decode_bound_seconds;
        quality_.prefill_bound = result_.prefill_bound_seconds;
        quality_.mix_bound = result_.mix_bound_seconds;
        check_plan();
        check_bounds();
        check_policies();
        return std::move(quality_);
    }

  private:
    bool has_prefill() const { return request_.prefill_weight > 0.0; }

    void expect(bool holds, const std::string& fault) {
        if (!holds) {
            quality_.faults.push_back(fault);
        }
    }
    void expect_same(double planner,
                     double reference,
                     const scheduler::Placement& placement,
                     const char* what) {
        expect(std::abs(planner - reference) <= same(placement) * reference,
               fmt::format("{}: {} s, by the reference {} s", what, planner, reference));
    }
    static double same(const scheduler::Placement& placement) {
        return placement.streams() ? kSameStreamed : kSame;
    }
    void expect_no_more(double less, double more, const char* what) {
        expect(less <= more * (1.0 + kExact), fmt::format("{}: {} above {}", what, less, more));
    }

    double decode(const scheduler::Placement& placement) const {
        return reference_step_seconds(
            instance_.catalog, instance_.hardware, placement, instance_.decode());
    }
    double prefill(const scheduler::Placement& placement) const {
        return reference_step_seconds(
            instance_.catalog, instance_.hardware, placement, instance_.prefill());
    }
    double value(double decode_seconds, double prefill_seconds) const {
        return request_.decode_weight * decode_seconds +
               request_.prefill_weight * prefill_seconds / request_.prefill_tokens;
    }

    void check_plan() {
        const scheduler::Placement& placement = result_.plan.placement;
        const auto budget = static_cast<double>(instance_.budget_bytes);
        expect_no_more(
            static_cast<double>(
                scheduler::device_bytes(instance_.catalog, placement, instance_.reserve()).total()),
            budget,
            "device memory");
        expect_no_more(reference_device_bytes(instance_.catalog, placement, instance_.reserve()),
                       budget,
                       "device memory by the reference");
        quality_.decode = decode(placement);
        expect_same(result_.plan.decode_seconds, quality_.decode, placement, "decode");
        if (has_prefill() || result_.plan.prefill_seconds > 0.0) {
            quality_.prefill = prefill(placement);
            expect_same(result_.plan.prefill_seconds, quality_.prefill, placement, "prefill");
        }
        quality_.value = value(quality_.decode, quality_.prefill);
    }

    double limit(const ReferenceStep& step) const {
        const scheduler::HardwareProfile& h = instance_.hardware;
        return lower_bound_seconds(h,
                                   step_demand(instance_.catalog,
                                               {.tokens = step.tokens, .depth = step.depth},
                                               request_.locality,
                                               h.expert_prefill_factor,
                                               static_cast<double>(instance_.budget_bytes)));
    }

    void check_bounds() {
        expect(result_.mix_bound_seconds > 0.0, "the bound of the mix is not above 0");
        expect_no_more(quality_.decode_bound, quality_.decode, "bound of decode");
        expect_no_more(limit(instance_.decode()), quality_.decode, "physical limit of decode");
        if (has_prefill()) {
            expect_no_more(quality_.prefill_bound, quality_.prefill, "bound of prefill");
            expect_no_more(limit(instance_.prefill()), quality_.prefill, "limit of prefill");
        }
        expect_no_more(quality_.mix_bound, quality_.value, "bound of the mix");
        expect_no_more(value(quality_.decode_bound, quality_.prefill_bound),
                       quality_.mix_bound,
                       "bounds of decode and prefill apart, against that of the mix");
        expect(std::abs(result_.gap - std::max(quality_.gap(), 0.0)) <=
                   2 * same(result_.plan.placement),
               fmt::format("stated gap {}, found {}", result_.gap, quality_.gap()));
    }

    void check_policies() {
        quality_.best_policy = std::numeric_limits<double>::infinity();
        for (const scheduler::PolicyForecast& policy : result_.policies) {
            if (!policy.best) {
                continue;
            }
            const std::string name = scheduler::policy_name(policy.policy);
            const double decode_seconds = decode(policy.best->placement);
            expect_same(policy.best->decode_seconds,
                        decode_seconds,
                        policy.best->placement,
                        (name + ", decode").c_str());
            double prefill_seconds = 0.0;
            if (has_prefill()) {
                prefill_seconds = prefill(policy.best->placement);
                expect_same(policy.best->prefill_seconds,
                            prefill_seconds,
                            policy.best->placement,
                            (name + ", prefill").c_str());
            }
            const double found = value(decode_seconds, prefill_seconds);
            quality_.best_policy = std::min(quality_.best_policy, found);
            expect_no_more(quality_.value, found, ("the plan's value, against " + name).c_str());
            expect_no_more(reference_device_bytes(
                               instance_.catalog, policy.best->placement, instance_.reserve()),
                           static_cast<double>(instance_.budget_bytes),
                           (name + ", device memory").c_str());
        }
    }

    const Instance& instance_;
    const scheduler::PlanRequest& request_;
    scheduler::PlanResult result_;
    PlanQuality quality_;
};

}  // namespace

scheduler::PlanRequest request_of(const Instance& instance) {
    scheduler::PlanRequest request = decode_request_of(instance);
    request.prefill_weight = instance.prefill_tokens;
    request.decode_weight = instance.decode_tokens;
    return request;
}

scheduler::PlanRequest decode_request_of(const Instance& instance) {
    return {.catalog = &instance.catalog,
            .costs = scheduler::CostModel(instance.hardware),
            .memory_bytes = static_cast<double>(instance.budget_bytes),
            .reserve = instance.reserve(),
            .depth = instance.depth,
            .prefill_tokens = instance.prefill_tokens,
            .hops = instance.blocking_hops ? scheduler::HopModel::kBlocking
                                           : scheduler::HopModel::kOverlapped,
            .locality = static_cast<scheduler::Locality>(instance.locality)};
}

PlanQuality plan_quality(const Instance& instance, const scheduler::PlanRequest& request) {
    return Judge(instance, request).run();
}

double quantile(std::vector<double> values, double share) {
    BALLAST_CHECK(!values.empty());
    const double rank = std::ceil(share * static_cast<double>(values.size()));
    const std::size_t index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
    std::sort(values.begin(), values.end());
    return values[std::min(index, values.size() - 1)];
}

}  // namespace ballast::test
