// SPDX-License-Identifier: MIT
// Costs of shares, and the chain from group to group.
#include "scheduler/placement/step_model.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "engine/base/check.h"
#include "scheduler/placement/copy_lane.h"

namespace ballast::scheduler {

namespace {

constexpr double kGiga = 1e9;
constexpr double kBytesPerActivation = 2.0;  // the residual crosses as F16

double fraction(int parts, int of) {
    return static_cast<double>(parts) / of;
}

/// Different experts that a prompt of n tokens asks for: E · (1 − (1 − k/E)^n).
double unique_experts(const TensorGroup& group, int n) {
    const double ratio = fraction(group.experts_used, group.parts);
    return group.parts * -std::expm1(n * std::log1p(-ratio));
}

}  // namespace

StepModel::StepModel(const TensorCatalog& catalog,
                     const CostModel& costs,
                     const StepOptions& options)
    : catalog_(&catalog), costs_(costs), options_(options) {
    find_types();
    const HardwareProfile& hardware = costs.hardware();
    unified_ = hardware.unified_memory;
    hop_ = hardware.hop_us * 1e-6;
    link_bps_ = hardware.link_gbps * kGiga;
    dram_bps_ = hardware.dram_gbps * kGiga;
    expert_factor_ = hardware.expert_prefill_factor;
    if (unified_) {
        shared_pace_ = std::min(
            1.0, hardware.dram_gbps / (hardware.device_read_gbps + hardware.cpu_read_gbps));
    } else if (options.shape.is_prefill()) {
        hop_ += options.shape.tokens * catalog.width * kBytesPerActivation / link_bps_;
    }
}

void StepModel::find_types() {
    const std::vector<TensorGroup>& groups = catalog_->groups;
    std::vector<TensorGroup> known;
    types_.reserve(groups.size());
    for (const TensorGroup& group : groups) {
        const TensorGroup type = group.type();
        const auto at = std::find(known.begin(), known.end(), type);
        types_.push_back(static_cast<int>(at - known.begin()));
        if (at == known.end()) {
            known.push_back(type);
        }
    }
    n_types_ = static_cast<int>(known.size());
}

double StepModel::lane_bps(double cpu_bytes, double cpu_seconds) const {
    if (cpu_seconds <= 0.0) {
        return link_bps_;
    }
    return std::clamp(dram_bps_ - cpu_bytes / cpu_seconds, 0.0, link_bps_);
}

double StepModel::link_seconds(const ShareCost& cost) const {
    if (unified_) {
        return 0.0;
    }
    return cost.streamed_bytes / link_bps_ + (1.0 - cost.lane_bps / link_bps_) * cost.cpu_seconds;
}

ShareCost StepModel::cost(const TensorGroup& group, const GroupPlacement& placed) const {
    if (group.kind != GroupKind::kExperts) {
        return dense_cost(group, placed);
    }
    return options_.shape.is_prefill() ? prefill_experts_cost(group, placed)
                                       : decode_experts_cost(group, placed);
}

ShareCost StepModel::dense_cost(const TensorGroup& group, const GroupPlacement& placed) const {
    const int streamed = options_.shape.is_prefill() ? placed.prefill_streamed : placed.streamed;
    const int on_device = placed.resident + streamed;
    BALLAST_CHECK(on_device <= group.parts);
    const Work work = group_work(group, options_.shape);
    const Work cpu_work = scaled(work, fraction(group.parts - on_device, group.parts));
    Outcome outcome;
    outcome.on_device = on_device > 0;
    outcome.on_cpu = on_device < group.parts;
    if (outcome.on_device) {
        outcome.device = costs_.seconds(
            Side::kDevice, group.kind, scaled(work, fraction(on_device, group.parts)));
    }
    if (outcome.on_cpu) {
        outcome.cpu = costs_.seconds(Side::kCpu, group.kind, cpu_work);
    }
    ShareCost cost;
    cost.first = outcome;
    cost.cpu_seconds = outcome.cpu;
    cost.lane_bps = lane_bps(cpu_work.bytes, outcome.cpu);
    if (streamed > 0 && !unified_) {
        cost.streamed_bytes =
            static_cast<double>(group.weight_bytes) * fraction(streamed, group.parts);
        const double rows = group.kind == GroupKind::kHead ? 1.0 : options_.shape.tokens;
        const Work weights = {.bytes = static_cast<double>(group.weight_bytes),
                              .flops = 2.0 * static_cast<double>(group.weights) * rows};
        cost.streamed_seconds = costs_.seconds(
            Side::kDevice, group.kind, scaled(weights, fraction(streamed, group.parts)));
    }
    return cost;
}

ShareCost StepModel::decode_experts_cost(const TensorGroup& group,
                                         const GroupPlacement& placed) const {
    const Work always = group_work(group, options_.shape);
    const Work one = {.bytes = static_cast<double>(group.expert_bytes),
                      .flops = 2.0 * static_cast<double>(group.expert_weights)};
    const auto seconds = [&](Side side, bool with_always, int experts) {
        const double base = with_always ? 1.0 : 0.0;
        return costs_.seconds(side,
                              group.kind,
                              {.bytes = always.bytes * base + one.bytes * experts,
                               .flops = always.flops * base + one.flops * experts});
    };
    const int used = group.experts_used;
    ShareCost cost;
    if (!placed.shared_on_device) {
        cost.cpu_seconds = seconds(Side::kCpu, true, used);
        cost.first = {.cpu = cost.cpu_seconds, .on_cpu = true};
        cost.lane_bps = lane_bps(always.bytes + one.bytes * used, cost.cpu_seconds);
        return cost;
    }
    const double hit = hit_rate(options_.locality, fraction(placed.resident, group.parts));
    std::vector<Outcome> outcomes;
    double ways = 1.0;  // used over misses
    double expected_misses = 0.0;
    for (int misses = 0; misses <= used; ++misses) {
        const double probability =
            ways * std::pow(1.0 - hit, misses) * std::pow(hit, used - misses);
        ways = ways * (used - misses) / (misses + 1);
        if (probability <= 0.0) {
            continue;
        }
        const double cpu = misses > 0 ? seconds(Side::kCpu, false, misses) : 0.0;
        outcomes.push_back({.probability = probability,
                            .device = seconds(Side::kDevice, true, used - misses),
                            .cpu = cpu,
                            .on_device = true,
                            .on_cpu = misses > 0});
        cost.cpu_seconds += probability * cpu;
        expected_misses += probability * misses;
    }
    cost.first = outcomes.front();
    cost.others.assign(outcomes.begin() + 1, outcomes.end());
    cost.lane_bps = lane_bps(one.bytes * expected_misses, cost.cpu_seconds);
    return cost;
}

ShareCost StepModel::prefill_experts_cost(const TensorGroup& group,
                                          const GroupPlacement& placed) const {
    const int tokens = options_.shape.tokens;
    const double unique = unique_experts(group, tokens);
    const Work always = group_work(group, options_.shape);
    const Work routed = {
        .bytes = unique * static_cast<double>(group.expert_bytes),
        .flops = 2.0 * static_cast<double>(group.expert_weights) * tokens * group.experts_used};
    const int streamed = placed.prefill_streamed;
    const int on_device = placed.resident + streamed;
    BALLAST_CHECK(on_device <= group.parts);
    const double device_share = fraction(on_device, group.parts);
    const bool always_on_device = placed.shared_on_device || streamed > 0;
    const double here = always_on_device ? 1.0 : 0.0;

    Outcome outcome;
    outcome.on_device = always_on_device;
    outcome.on_cpu = on_device < group.parts || !always_on_device;
    const Work cpu_work = {
        .bytes = routed.bytes * (1.0 - device_share) + always.bytes * (1.0 - here),
        .flops = routed.flops * (1.0 - device_share) + always.flops * (1.0 - here)};
    if (outcome.on_device) {
        outcome.device =
            costs_.seconds(Side::kDevice,
                           group.kind,
                           {.bytes = routed.bytes * device_share + always.bytes,
                            .flops = routed.flops * device_share / expert_factor_ + always.flops});
    }
    if (outcome.on_cpu) {
        outcome.cpu = costs_.seconds(Side::kCpu, group.kind, cpu_work);
    }
    ShareCost cost;
    cost.first = outcome;
    cost.cpu_seconds = outcome.cpu;
    cost.lane_bps = lane_bps(cpu_work.bytes, outcome.cpu);
    if (streamed > 0 && !unified_) {
        cost.streamed_bytes = routed.bytes * fraction(streamed, group.parts) +
                              (placed.shared_on_device ? 0.0 : always.bytes);
        const double share = fraction(streamed, group.parts);
        cost.streamed_seconds = costs_.seconds(
            Side::kDevice,
            group.kind,
            {.bytes = routed.bytes * share, .flops = routed.flops * share / expert_factor_});
    }
    return cost;
}

/// When each side starts on its share.
inline ChainState StepModel::starts(const Outcome& outcome, ChainState before) const {
    if (options_.hops == HopModel::kBlocking && outcome.on_device && outcome.on_cpu) {
        const double both = std::min(before.device, before.cpu) + hop_;
        return {.device = both, .cpu = both};
    }
    return before;
}

inline ChainState StepModel::ends(const Outcome& outcome, ChainState start) const {
    const double device = start.device + outcome.device;
    const double cpu = start.cpu + outcome.cpu;
    if (shared_pace_ >= 1.0 || !outcome.on_device || !outcome.on_cpu) {
        return {.device = device, .cpu = cpu};
    }
    // One memory for both: from the time both compute until one has finished, both are slowed.
    const double both_from = std::max(start.device, start.cpu);
    const double device_left = device - both_from;
    const double cpu_left = cpu - both_from;
    if (device_left <= 0.0 || cpu_left <= 0.0) {
        return {.device = device, .cpu = cpu};
    }
    const double lost = std::min(device_left, cpu_left) * (1.0 / shared_pace_ - 1.0);
    return {.device = device + lost, .cpu = cpu + lost};
}

inline ChainState StepModel::after(const Outcome& outcome,
                                   ChainState before,
                                   ChainState end) const {
    if (!outcome.on_cpu) {
        return {.device = end.device, .cpu = end.device + hop_};
    }
    if (!outcome.on_device) {
        return {.device = end.cpu + hop_, .cpu = end.cpu};
    }
    if (options_.hops == HopModel::kOverlapped) {
        return {.device = std::max(end.device, end.cpu + hop_),
                .cpu = std::max(end.cpu, end.device + hop_)};
    }
    const double joined = std::max(end.device, end.cpu) + hop_;
    const bool device_owns = before.device <= before.cpu;
    return {.device = joined + (device_owns ? 0.0 : hop_),
            .cpu = joined + (device_owns ? hop_ : 0.0)};
}

ChainState StepModel::advance(const ShareCost& cost, ChainState before) const {
    const auto with = [&](const Outcome& outcome) {
        return after(outcome, before, ends(outcome, starts(outcome, before)));
    };
    if (cost.others.empty()) {
        return with(cost.first);
    }
    const ChainState first = with(cost.first);
    ChainState expected = {.device = cost.first.probability * first.device,
                           .cpu = cost.first.probability * first.cpu};
    for (const Outcome& outcome : cost.others) {
        const ChainState next = with(outcome);
        expected.device += outcome.probability * next.device;
        expected.cpu += outcome.probability * next.cpu;
    }
    return expected;
}

double StepModel::seconds(const Placement& placement) const {
    BALLAST_CHECK(placement.groups.size() == catalog_->groups.size());
    // Most groups are divided like others of their type. Costs stay where they are.
    struct Known {
        GroupPlacement placed;
        ShareCost cost;
    };
    std::vector<std::deque<Known>> known(static_cast<std::size_t>(n_types_));
    std::vector<const ShareCost*> in_order;
    in_order.reserve(placement.groups.size());
    for (std::size_t i = 0; i < placement.groups.size(); ++i) {
        const GroupPlacement& placed = placement.groups[i];
        std::deque<Known>& of_type = known[static_cast<std::size_t>(types_[i])];
        auto at = std::find_if(
            of_type.begin(), of_type.end(), [&](const Known& of) { return of.placed == placed; });
        if (at == of_type.end()) {
            of_type.push_back({.placed = placed, .cost = cost(catalog_->groups[i], placed)});
            at = of_type.end() - 1;
        }
        in_order.push_back(&at->cost);
    }
    return seconds(in_order);
}

double StepModel::seconds(std::span<const ShareCost* const> costs) const {
    const bool streams = std::any_of(costs.begin(), costs.end(), [](const ShareCost* cost) {
        return cost->streamed_bytes > 0.0;
    });
    CopyLane lane(link_bps_);
    const int steps = streams && !options_.shape.is_prefill() ? 1 + kMeasuredSteps : 1;
    if (streams) {
        lane.reserve(costs.size() * static_cast<std::size_t>(steps));
    }
    double begin = 0.0;
    double first_end = 0.0;
    for (int step = 0; step < steps; ++step) {
        ChainState state = {.device = begin + hop_, .cpu = begin};
        for (const ShareCost* const group : costs) {
            const ShareCost& cost = *group;
            const Outcome& outcome = cost.first;
            const ChainState start = starts(outcome, state);
            if (streams && cost.cpu_seconds > 0.0) {
                lane.cpu_works(start.cpu, start.cpu + cost.cpu_seconds, cost.lane_bps);
            }
            if (cost.streamed_bytes <= 0.0) {
                state = advance(cost, state);
                continue;
            }
            const double resident = outcome.device - cost.streamed_seconds;
            const double begin_copied = start.device + resident;
            double device_end = 0.0;
            if (options_.serial_copies) {
                lane.hold_until(begin_copied);
                device_end =
                    lane.stream(cost.streamed_bytes, 0.0, begin_copied) + cost.streamed_seconds;
            } else {
                device_end = lane.stream(cost.streamed_bytes, cost.streamed_seconds, begin_copied);
            }
            state = after(outcome, state, {.device = device_end, .cpu = start.cpu + outcome.cpu});
        }
        begin = state.cpu;
        if (step == 0) {
            first_end = begin;
        }
    }
    return steps == 1 ? begin : (begin - first_end) / (steps - 1);
}

}  // namespace ballast::scheduler
