// SPDX-License-Identifier: MIT
// Groups are ranked by the CPU's seconds that their bytes save, and taken or dropped in that order.
#include "scheduler/placement/residency.h"

#include <algorithm>
#include <numeric>

namespace ballast::scheduler {

namespace {

// What is worth keeping for later is not dropped for less.
constexpr double kWorthDropping = 0.98;

GroupPlacement residents(const GroupPlacement& placed) {
    return {.resident = placed.resident, .shared_on_device = placed.shared_on_device};
}

Placement residents(Placement placement) {
    for (GroupPlacement& placed : placement.groups) {
        placed = residents(placed);
    }
    return placement;
}

GroupPlacement least_of(const GroupPlacement& a, const GroupPlacement& b) {
    return {.resident = std::min(a.resident, b.resident),
            .shared_on_device = a.shared_on_device && b.shared_on_device};
}

GroupPlacement most_of(const GroupPlacement& a, const GroupPlacement& b) {
    return {.resident = std::max(a.resident, b.resident),
            .shared_on_device = a.shared_on_device || b.shared_on_device};
}

template <class Combine>
Placement combined(const Placement& a, const Placement& b, Combine combine) {
    Placement both = a;
    for (std::size_t i = 0; i < both.groups.size(); ++i) {
        both.groups[i] = combine(a.groups[i], b.groups[i]);
    }
    return both;
}

/// What is resident, with the streams of a plan.
Placement with_streams(const TensorCatalog& catalog,
                       Placement resident,
                       const Placement& plan,
                       bool may_stream) {
    for (std::size_t i = 0; may_stream && i < resident.groups.size(); ++i) {
        GroupPlacement& placed = resident.groups[i];
        placed.streamed =
            std::min(plan.groups[i].streamed, catalog.groups[i].parts - placed.resident);
    }
    return resident;
}

}  // namespace

Placement common_residents(const Placement& a, const Placement& b) {
    return combined(a, b, least_of);
}

std::uint64_t Residency::bytes(const Placement& kept, const Placement& executed) const {
    Placement both = kept;
    for (std::size_t i = 0; i < both.groups.size(); ++i) {
        GroupPlacement& placed = both.groups[i];
        // A head that streams has its keys on the device beside those of the resident ones.
        placed.streamed =
            std::min(executed.groups[i].streamed, catalog_->groups[i].parts - placed.resident);
    }
    return device_bytes(*catalog_, both, reserve_).total();
}

std::uint64_t Residency::group_total(std::size_t group, const GroupPlacement& placed) const {
    const GroupBytes bytes = group_bytes(catalog_->groups[group], residents(placed), reserve_);
    return bytes.weights + bytes.kv;
}

void Residency::drop(Placement& kept,
                     std::size_t group,
                     const GroupPlacement& least,
                     const Placement& streams,
                     std::uint64_t& total,
                     std::uint64_t budget_bytes) const {
    GroupPlacement& placed = kept.groups[group];
    while (total > budget_bytes) {
        const GroupPlacement was = placed;
        const std::uint64_t before = group_total(group, was);
        const std::uint64_t over = total - budget_bytes;
        while (placed.resident > least.resident && before - group_total(group, placed) < over) {
            --placed.resident;
        }
        if (before - group_total(group, placed) < over) {
            placed.shared_on_device = least.shared_on_device;
        }
        if (placed == was) {
            return;
        }
        // What is not resident any more may stream, and then its keys stay on the device.
        total = streams.groups[group].streamed > 0 ? bytes(kept, streams)
                                                   : total - (before - group_total(group, placed));
    }
}

std::vector<std::size_t> Residency::eviction_order(const StepModel& model,
                                                   const Placement& held) const {
    std::vector<double> value(held.groups.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
        const TensorGroup& group = catalog_->groups[i];
        const double saved =
            model.cost(group, {}).cpu_seconds - model.cost(group, held.groups[i]).cpu_seconds;
        const std::uint64_t bytes = group_total(i, held.groups[i]);
        value[i] = bytes > 0 ? saved / static_cast<double>(bytes) : 0.0;
    }
    std::vector<std::size_t> order(value.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return value[a] < value[b];
    });
    return order;
}

Placement Residency::trimmed(const StepModel& model,
                             Placement kept,
                             const Placement& streams,
                             std::uint64_t budget_bytes) const {
    std::uint64_t total = bytes(kept, streams);
    if (total <= budget_bytes) {
        return kept;
    }
    for (const std::size_t group : eviction_order(model, kept)) {
        if (total <= budget_bytes) {
            break;
        }
        drop(kept, group, {}, streams, total, budget_bytes);
    }
    return kept;
}

ResidencyUse Residency::best_use(const StepModel& model,
                                 const Placement& held,
                                 std::span<const Placement> plans,
                                 std::uint64_t budget_bytes,
                                 bool may_stream) const {
    const Placement nothing = cpu_only(*catalog_);
    const Placement most = trimmed(model, residents(held), nothing, budget_bytes);
    ResidencyUse best{.kept = most, .executed = nothing, .seconds = model.seconds(nothing)};
    double limit = best.seconds;
    const auto consider = [&](const Placement& kept, const Placement& executed) {
        if (bytes(kept, executed) > budget_bytes) {
            return;
        }
        const double seconds = model.seconds(executed);
        if (seconds < limit) {
            best = {.kept = kept, .executed = executed, .seconds = seconds};
            limit = seconds;
        }
    };
    const auto with_all_of = [&](const Placement& kept, const Placement& plan, bool streams) {
        consider(kept, with_streams(*catalog_, common_residents(kept, plan), plan, streams));
        consider(kept, with_streams(*catalog_, kept, plan, streams));
    };
    for (const Placement& plan : plans) {
        with_all_of(most, plan, may_stream);
        with_all_of(most, plan, false);
    }
    // What drops more has to be worth it.
    limit *= kWorthDropping;
    for (const Placement& plan : plans) {
        const Placement lane = with_streams(*catalog_, nothing, plan, may_stream);
        with_all_of(trimmed(model, residents(held), lane, budget_bytes), plan, may_stream);
        with_all_of(common_residents(held, plan), plan, may_stream);
    }
    return best;
}

Placement Residency::with_plan(const Placement& held,
                               const Placement& plan,
                               std::uint64_t budget_bytes) const {
    Placement both = combined(held, plan, most_of);
    std::uint64_t total = bytes(both, plan);
    for (std::size_t i = both.groups.size(); i > 0 && total > budget_bytes; --i) {
        drop(both, i - 1, residents(plan.groups[i - 1]), plan, total, budget_bytes);
    }
    return both;
}

std::vector<ResidencyGrowth> Residency::growth(const StepModel& model,
                                               const Placement& held,
                                               const Placement& wanted,
                                               std::uint64_t bytes_most) const {
    struct Ranked {
        double value = 0.0;
        ResidencyGrowth growth = {};
    };
    std::vector<Ranked> ranked;
    for (std::size_t i = 0; i < held.groups.size(); ++i) {
        const TensorGroup& group = catalog_->groups[i];
        const GroupPlacement then = most_of(held.groups[i], wanted.groups[i]);
        const std::uint64_t more = group_total(i, then) - group_total(i, held.groups[i]);
        if (more == 0) {
            continue;
        }
        const double saved =
            model.cost(group, held.groups[i]).cpu_seconds - model.cost(group, then).cpu_seconds;
        ranked.push_back({saved / static_cast<double>(more), {i, then, more}});
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
        return a.value > b.value;
    });
    std::vector<ResidencyGrowth> chosen;
    for (const Ranked& candidate : ranked) {
        ResidencyGrowth next = candidate.growth;
        const GroupPlacement& now = held.groups[next.group];
        while (next.bytes > bytes_most && next.then.resident > now.resident) {
            --next.then.resident;
            next.bytes = group_total(next.group, next.then) - group_total(next.group, now);
        }
        if (next.bytes > 0 && next.bytes <= bytes_most) {
            bytes_most -= next.bytes;
            chosen.push_back(next);
        }
    }
    return chosen;
}

}  // namespace ballast::scheduler
