// SPDX-License-Identifier: MIT
// The planner: a placement for a model on a machine, how fast it should be, and how far from the
// best it can be at most. A pure function. docs/scheduling.md has the method.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "scheduler/placement/option_table.h"
#include "scheduler/placement/policies.h"
#include "scheduler/placement/price_dual.h"

namespace ballast::scheduler {

/// A prompt of half the context, and of no more than this many tokens, stands for all.
constexpr int kPlannedPromptMax = 2048;

/// What a plan is for. Borrows the catalog.
struct PlanRequest {
    const TensorCatalog* catalog = nullptr;
    CostModel costs{HardwareProfile{}};
    double memory_bytes = 0.0;    // of the device, for weights, KV cache and ring
    KvReserve reserve = {};       // tokens to reserve KV for
    int depth = 0;                // tokens in the cache at an average decode step
    int prefill_tokens = 2;       // of a prefill step, at least 2
    double prefill_weight = 0.0;  // prompt tokens for each …
    double decode_weight = 1.0;   // … of these generated tokens
    HopModel hops = HopModel::kOverlapped;
    Locality locality = Locality::kUniform;
    Ladder ladder = {};
    /// A plan of whole groups is taken if it is at most this much slower than the fastest: 0.03 is
    /// 3%. The gap is then that of the plan that was taken.
    double simple_within = 0.0;
};

/// A placement with the times the model forecasts for it.
struct ForecastPlacement {
    Placement placement = {};
    double decode_seconds = 0.0;   // a token
    double prefill_seconds = 0.0;  // the request's prefill step
};

/// What one of the other policies would give; nothing if it cannot place this model here.
struct PolicyForecast {
    Policy policy = Policy::kCpuOnly;
    std::optional<ForecastPlacement> best = {};
};

struct PlanResult {
    ForecastPlacement plan = {};
    std::vector<PolicyForecast> policies = {};
    /// No division of the ladder takes less (Lagrange's dual), and by how much at most the plan is
    /// slower than the best one: 0.01 is 1%. Of the mix.
    double decode_bound_seconds = 0.0;
    double prefill_bound_seconds = 0.0;
    double mix_bound_seconds = 0.0;  // of both together, weighted like the request
    double gap = 0.0;
    Prices prices = {};  // where the next plan's search may start
    int n_chains = 0;    // how much work it was
};

/// Plans again for another budget, with the tables, prices and kinds of layer of the plan before.
/// One thread; the request's catalog outlives it. Preconditions as below.
class Replanner {
  public:
    explicit Replanner(const PlanRequest& request, const Prices& start = {});
    ~Replanner();
    Replanner(const Replanner&) = delete;
    Replanner& operator=(const Replanner&) = delete;

    /// For the request as it is.
    PlanResult plan();
    /// For this much device memory, in bytes: looks at fewer plans than plan() does, and says by
    /// its gap what that cost. Other policies that stream are not compared with.
    PlanResult replan(double memory_bytes);

  private:
    class Planner;
    std::unique_ptr<Planner> planner_;
};

/// Preconditions: weights not negative and not both 0, rates above 0. `start`: prices of the plan
/// before this one; zeros for none.
PlanResult make_plan(const PlanRequest& request, const Prices& start = {});

}  // namespace ballast::scheduler
